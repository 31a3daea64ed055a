//! Tests of grants where a message reaches more than one server: PUBLISH is replicated, so that no
//! subscriber here proves nothing about a waiter that is connected elsewhere.

use std::sync::Arc;

use dlock_harness::{RedisServer, until};

use super::lab::{CAP, HOUR, Heard, Lab, acquire, claim, link, listening, waiter};
use crate::link::Link;
use crate::link::redis::link::RedisLink;
use crate::rules::commands::{Acquired, Claim, Keep};

/// Waits until the replica has the master's data.
async fn replicate(replica: &RedisServer, master: &RedisServer) {
    let port = master.port().to_string();
    let at_once = ["CONFIG", "SET", "repl-diskless-sync-delay", "0"];
    master.cmd(&at_once).await; // the default 5 s outlast a queue entry
    replica.cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
    until("the replica follows", CAP, async || {
        let info: String = replica.ask(&["INFO", "replication"]).await;
        info.contains("master_link_status:up") && info.contains("master_sync_in_progress:0")
    })
    .await;
}

async fn ask(link: &RedisLink, who: &Claim) -> Acquired {
    let command = acquire(who, link.server_time() + HOUR);
    link.acquire(&command, CAP).await.expect("an answer")
}

/// A release at the new master reaches the waiter that is still connected to the old one. If the
/// grant were taken back because it had no subscriber *there*, the waiter would believe it all the
/// same, while another client takes the free lock.
#[tokio::test]
async fn a_grant_that_a_replica_passes_on_is_not_taken_back() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let heard = Arc::<Heard>::default();
    let waits = listening(&old.url(), &heard).await;
    let holds = link(&old.url()).await;
    let ours = claim("lock:a", "ours");
    assert!(matches!(ask(&holds, &ours).await, Acquired::Granted { .. }));
    let next = waiter("lock:a", waits.address().expect("it hears"), "next");
    assert!(matches!(ask(&waits, &next).await, Acquired::Queued(_)));

    replicate(&new, &old).await;
    new.cmd(&["REPLICAOF", "NO", "ONE"]).await;
    replicate(&old, &new).await;
    let at_the_new = link(&new.url()).await;
    let released = at_the_new.release(&ours, Keep::NOT, CAP).await;
    assert!(released.expect("an answer").found);
    until("the waiter hears of its grant", CAP, async || {
        let granted = heard.take();
        granted.iter().any(|(grant, _)| grant.value == next.value)
    })
    .await;
    let stands = at_the_new.read("lock:a", CAP).await.expect("an answer");
    assert_eq!(stands.as_deref(), Some(&*next.value), "and it is granted");
}

/// The value at the lock after `ours` has released it with `dead` in the queue, which receives no
/// push.
async fn granted_to(lab: &Lab, ours: &Claim, dead: &Claim) -> Option<String> {
    lab.granted(ours).await;
    assert!(matches!(lab.acquire(dead).await, Ok(Acquired::Queued(_))));
    let released = lab.link.release(ours, Keep::NOT, CAP).await;
    assert!(released.expect("an answer").found);
    let value = lab.link.read("lock:a", CAP).await.expect("an answer");
    lab.server.cmd(&["DEL", "lock:a"]).await;
    value
}

/// If the waiter's server can't be identified, the server can't tell that the waiter is dead: its
/// claim ends by itself.
#[tokio::test]
async fn an_address_without_a_run_id_keeps_its_grant() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "ours");
    for (address, stands) in [
        (";lock:@grant:nobody".to_owned(), true),
        ("0123456789abcdef;lock:@grant:nobody".to_owned(), true),
        ("lock:@grant:nobody".to_owned(), true),
        (lab.unresponsive(), false),
    ] {
        let dead = waiter("lock:a", &address, "dead");
        let value = granted_to(&lab, &ours, &dead).await;
        assert_eq!(value.is_some(), stands, "{address}");
    }
}

/// The same for the kinds with many holders, which grant in a script of their own.
#[tokio::test]
async fn a_reader_of_another_server_keeps_its_grant() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "1|w|ours||30000|0|0||host|1|f|0");
    for (address, stands) in [
        ("0123456789abcdef;lock:@grant:nobody".to_owned(), true),
        (lab.unresponsive(), false),
    ] {
        let entry = format!("1|r|dead|{address}|30000|0|0||host|1|f|0");
        let dead = Claim {
            queues: true,
            ..claim("lock:a", &entry)
        };
        let value = granted_to(&lab, &ours, &dead).await;
        assert_eq!(value, stands.then_some(entry), "{address}");
    }
}
