//! The additional rights of guarded writes in `docs/operate/server.md`: enough for every
//! command, and each of them is needed.

use std::time::Duration;

use dlock_runtime::{Batch, Refusal};
use dlock_tests::refusal;
use dlock_tests::served::documented_rules;

use crate::user::Lab;

/// In addition to those of every lock.
const RIGHTS: [&str; 11] = [
    "~*{item:*",
    "+type",
    "+hget",
    "+incrby",
    "+hset",
    "+hdel",
    "+hincrby",
    "+sadd",
    "+srem",
    "+lpush",
    "+rpush",
];

/// A user with the rights of every lock, and these.
async fn lab() -> Lab {
    let lab = Lab::new("", "dlock").await;
    lab.rules(documented()).await;
    lab
}

/// The line that users copy.
fn documented() -> Vec<&'static str> {
    let words = documented_rules("ACL SETUSER dlock ~*{item:* ");
    [&["~*{item:*"], &*words].concat()
}

fn every_command() -> Batch {
    Batch::new()
        .set("a{item:7}", "x")
        .set_with_ttl("b{item:7}", "x", Duration::from_secs(60))
        .expire("a{item:7}", Duration::from_secs(60))
        .del("a{item:7}")
        .zadd("z{item:7}", "x", 1.0)
        .zrem("z{item:7}", "x")
        .incr_by("n{item:7}", 1)
        .hset("h{item:7}", "x", "1")
        .hdel("h{item:7}", "x")
        .hincr_by("h{item:7}", "n", 1)
        .sadd("s{item:7}", "x")
        .srem("s{item:7}", "x")
        .lpush("l{item:7}", "x")
        .rpush("l{item:7}", "x")
}

#[test]
fn the_documented_rights_are_these() {
    assert_eq!(documented(), RIGHTS);
}

#[tokio::test]
async fn the_documented_rights_are_enough() {
    let lab = lab().await;
    let lock = lab.pool().await.unwrap().lock("{item:7}").acquire();
    let lock = lock.await.unwrap();
    lock.write(&every_command()).await.unwrap();
    lock.release().await.unwrap();
    assert_eq!(lab.refused().await, [""; 0]);
}

#[tokio::test]
async fn each_right_is_missed_and_the_error_says_how_far_it_came() {
    let lab = lab().await;
    let lock = lab.pool().await.unwrap().lock("{item:7}").acquire();
    let lock = lock.await.unwrap();
    for right in &RIGHTS[1..] {
        lab.rules([right.replacen('+', "-", 1).as_str()]).await;
        lab.server().cmd(&["DEL", "b{item:7}"]).await;
        let error = lock.write(&every_command()).await.unwrap_err();
        assert_eq!(
            refusal(&error),
            Some(Refusal::NoPermission),
            "{right}: {error:?}"
        );
        let is_before = ["+type", "+hget"].contains(right);
        let said = format!("{error:?}");
        let left = if is_before { -2 } else { 0 };
        assert_eq!(lab.server().pttl("b{item:7}").await.min(0), left, "{right}");
        let name = right[1..].to_uppercase();
        assert_eq!(
            said.contains(&format!("{name}, command")),
            !is_before,
            "{said}"
        );
        assert_eq!(said.contains("before it are written"), !is_before, "{said}");
        lab.rules([*right]).await;
    }
    lock.write(&every_command()).await.unwrap();
}

#[tokio::test]
async fn the_error_says_in_words_how_much_of_the_batch_is_written() {
    let lab = lab().await;
    let lock = lab.pool().await.unwrap().lock("{item:7}").acquire();
    let lock = lock.await.unwrap();
    lab.rules(["-sadd"]).await;
    for (before, said) in [
        (0, "SADD, command 1 of 2: "),
        (0, "; nothing was written"),
        (1, "SADD, command 2 of 3: "),
        (1, "; the one before it is written"),
        (2, "; the 2 before it are written"),
    ] {
        let mut batch = Batch::new();
        for _ in 0..before {
            batch = batch.incr_by("n{item:7}", 1);
        }
        let batch = batch.sadd("s{item:7}", "x").incr_by("n{item:7}", 1);
        let error = lock.write(&batch).await.unwrap_err();
        assert_eq!(refusal(&error), Some(Refusal::NoPermission), "{error:?}");
        assert!(format!("{error:?}").contains(said), "{said}: {error:?}");
    }
}

/// Data keys are declared, so a forbidden one stops the whole script.
#[tokio::test]
async fn a_data_key_outside_the_pattern_stops_the_whole_batch() {
    let lab = lab().await;
    let lock = lab.pool().await.unwrap().lock("{other:7}").acquire();
    let lock = lock.await.unwrap();
    let batch = Batch::new().set("a{other:7}", "x");
    let error = lock.write(&batch).await.unwrap_err();
    assert_eq!(refusal(&error), Some(Refusal::NoPermission), "{error:?}");
    let inside = Batch::new().set("lock:data{other:7}", "x");
    lock.write(&inside.clone().set("a{other:7}", "x"))
        .await
        .unwrap_err();
    assert_eq!(lab.server().pttl("lock:data{other:7}").await, -2);
    lock.write(&inside).await.unwrap();
}
