//! No token, no value and no password in anything that an administrator gets.

use dlock_harness::RedisServer;
use dlock_runtime::{Config, Fingerprint, HolderReport};

use super::{Lab, held, list, show, wait};

/// The parts of an entry that could release its lock, in pieces too.
fn parts_of_token(entry: &str) -> Vec<String> {
    let token = entry.split('|').nth(2).unwrap();
    let parts = token.split('-').filter(|part| part.len() > 8);
    let pieces = parts.flat_map(|part| {
        let at = (0..=part.len() - 8).map(|at| part[at..at + 8].to_owned());
        at.collect::<Vec<_>>()
    });
    [entry.to_owned(), token.to_owned()]
        .into_iter()
        .chain(pieces)
        .collect()
}

#[tokio::test]
async fn in_no_text_and_no_error() {
    let server = RedisServer::builder().password("canary-password").start();
    let settings = |config: Config| config.grant_secret("canary-secret-of-a-fleet");
    let lab = Lab::on(server, settings).await;
    let _exclusive = held(lab.here.lock("a")).await;
    let _reader = held(lab.here.lock("b").read()).await;
    let _permits = held(lab.here.lock("c").permits(5).take(2)).await;
    let _owner = held(lab.here.lock("d").reentrant().owner("w")).await;
    lab.server.cmd(&["SET", "lock:e", "canary-value"]).await;
    let other = "7|x|canary-token|canary-later";
    lab.server.cmd(&["SET", "lock:f", other]).await;
    let writer = wait(&lab.admin, lab.there.lock("b").write(), "b", 1).await;

    let mut canaries = vec!["canary".to_owned()];
    canaries.extend(parts_of_token(
        &lab.server.ask::<String>(&["GET", "lock:a"]).await,
    ));
    for set in ["lock:b", "lock:c", "lock:d", "lock:@w:{lock:b}"] {
        let first: Vec<String> = lab.server.ask(&["ZRANGE", set, "0", "0"]).await;
        canaries.extend(parts_of_token(&first[0]));
    }
    // More than one word, and of five entries two texts and the pieces of one part with 16 digits.
    let of_one_part = 16 - 8 + 1;
    assert!(
        canaries.len() > 1 + 5 * (2 + of_one_part),
        "of both random parts"
    );

    let mut said = vec![format!("{:?}", lab.admin)];
    for lock in list(&lab.admin, "*").await {
        said.push(format!("{lock:?} {lock:#?}"));
        let kind = lock.kind().unwrap();
        said.push(format!("{kind}"));
        for holder in lock.holders() {
            said.push(format!(
                "{} {} {}",
                holder.fingerprint(),
                holder.holder(),
                holder.kind()
            ));
        }
    }
    let mut listing = lab.admin.list("*");
    listing.next_page().await.unwrap();
    let mut watch = lab.admin.watch("*");
    said.push(format!(
        "{listing:?} {:?} {watch:?}",
        watch.next().await.unwrap()
    ));
    for key in ["a", "b", "c", "d", "e", "f"] {
        let lock = show(&lab.admin, key).await;
        said.push(format!("{lock:?}"));
        let wrong: Fingerprint = "0123456789abcdef".parse().unwrap();
        let right = lock.holders().first().map(HolderReport::fingerprint);
        for holder in [wrong, right.unwrap_or(wrong)] {
            said.push(format!("{:?}", lab.admin.evict(key, holder).await));
        }
    }
    writer.abort();
    let said = said.join("\n");
    assert!(said.contains("secret.rs:") && said.contains("waiting"));
    for canary in canaries {
        assert!(!said.contains(&canary), "{canary}");
    }
}
