//! A server that refuses: out of memory, without rights, a replica. What is refused leaves nothing; what frees still works.

use dlock_harness::RedisServer;

use super::lab::{CAP, HOUR, Lab, acquire, assert_refused, claim, link, renewal};
use crate::backend::Link;
use crate::backend::redis::link::RedisLink;
use crate::policy::commands::{Acquired, Renewed};
use crate::values::error::Refusal;

/// All that a lock needs; `docs/PROTOCOL.md` names the same.
const RIGHTS: [&str; 17] = [
    "+hello",
    "+ping",
    "+eval",
    "+evalsha",
    "+time",
    "+get",
    "+set",
    "+del",
    "+pttl",
    "+pexpire",
    "+zadd",
    "+zrem",
    "+zrange",
    "+zscore",
    "+publish",
    "+subscribe",
    "&lock:@grant:*",
];

#[tokio::test]
async fn out_of_memory_an_acquire_is_refused_and_leaves_nothing() {
    let lab = Lab::new().await;
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let answer = lab.acquire(&claim("lock:a", "1|ours")).await;
    assert_refused(answer, Refusal::OutOfMemory);
    assert!(lab.keys().await.is_empty(), "{:?}", lab.keys().await);
}

#[tokio::test]
async fn out_of_memory_what_is_held_can_be_renewed_and_given_back() {
    let lab = Lab::new().await;
    let [one, two] = ["lock:a", "lock:b"].map(|key| claim(key, "1|ours"));
    lab.granted(&one).await;
    lab.granted(&two).await;
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let busy = lab.acquire(&claim("lock:a", "1|other")).await;
    assert!(matches!(busy, Ok(Acquired::Busy(_))), "{busy:?}");
    let items = [renewal(&one, 60), renewal(&two, 60)];
    assert_eq!(
        lab.link.renew(&items, CAP).await.unwrap(),
        [Renewed::Yes; 2]
    );
    assert!(lab.link.release(&one, 0, CAP).await.unwrap());
    assert!(lab.link.cancel(&two, 0, 0, CAP).await.unwrap().found);
    assert_eq!(lab.keys().await, ["lock:@fence"]);
}

/// A link as a new ACL user with these rights, on keys that begin with `lock:`.
async fn as_user(server: &RedisServer, rights: &[&str]) -> RedisLink {
    let words = [
        &[
            "ACL", "SETUSER", "worker", "reset", "on", ">secret", "~lock:*",
        ],
        rights,
    ]
    .concat();
    server.cmd(&words).await;
    link(&format!("redis://worker:secret@{}", server.addr())).await
}

#[tokio::test]
async fn sixteen_rights_and_a_channel_pattern_are_enough() {
    let server = RedisServer::start();
    let link = as_user(&server, &RIGHTS).await;
    let ours = claim("lock:a", "1|ours");
    let command = acquire(&ours, link.server_time() + HOUR);
    assert!(matches!(
        link.acquire(&command, CAP).await,
        Ok(Acquired::Granted { .. })
    ));
    assert_eq!(
        link.renew(&[renewal(&ours, 60)], CAP).await.unwrap(),
        [Renewed::Yes]
    );
    assert_eq!(
        link.read("lock:a", CAP).await.unwrap().as_deref(),
        Some("1|ours")
    );
    assert!(link.release(&ours, 0, CAP).await.unwrap());
    assert!(link.cancel(&ours, 0, 0, CAP).await.unwrap().conclusive);
    link.ping(CAP).await.unwrap();
}

/// Each right of a script is missing once: refused, and nothing is written before the refusal.
#[tokio::test]
async fn a_missing_right_is_named_and_leaves_nothing() {
    let server = RedisServer::start();
    for missing in ["eval", "evalsha", "get", "set", "zrange"] {
        let rights: Vec<&str> = RIGHTS
            .into_iter()
            .filter(|right| right[1..] != *missing)
            .collect();
        let link = as_user(&server, &rights).await;
        server.cmd(&["SCRIPT", "FLUSH"]).await;
        let command = acquire(&claim("lock:a", "1|ours"), link.server_time() + HOUR);
        assert_refused(link.acquire(&command, CAP).await, Refusal::NoPermission);
        assert!(server.keys().await.is_empty(), "without {missing}");
    }
}

#[tokio::test]
async fn a_key_outside_the_users_pattern_is_refused() {
    let server = RedisServer::start();
    let link = as_user(&server, &RIGHTS).await;
    let command = acquire(&claim("other:a", "1|ours"), link.server_time() + HOUR);
    assert_refused(link.acquire(&command, CAP).await, Refusal::NoPermission);
    assert_refused(link.read("other:a", CAP).await, Refusal::NoPermission);
    assert!(server.keys().await.is_empty());
}

#[tokio::test]
async fn a_release_without_rights_says_so_and_leaves_the_lock() {
    let server = RedisServer::start();
    let link = as_user(&server, &RIGHTS).await;
    let ours = claim("lock:a", "1|ours");
    let command = acquire(&ours, link.server_time() + HOUR);
    assert!(matches!(
        link.acquire(&command, CAP).await,
        Ok(Acquired::Granted { .. })
    ));
    server
        .cmd(&["ACL", "SETUSER", "worker", "-del", "-pexpire"])
        .await;
    assert_refused(link.release(&ours, 0, CAP).await, Refusal::NoPermission);
    assert_refused(link.cancel(&ours, 0, 0, CAP).await, Refusal::NoPermission);
    assert_eq!(
        link.renew(&[renewal(&ours, 60)], CAP).await.unwrap(),
        [Renewed::Failed]
    );
    server.cmd(&["ACL", "SETUSER", "worker", "-get"]).await;
    assert_refused(link.release(&ours, 0, CAP).await, Refusal::NoPermission);
    assert_eq!(
        link.renew(&[renewal(&ours, 60)], CAP).await.unwrap(),
        [Renewed::Failed]
    );
    assert_eq!(server.keys().await, ["lock:@fence", "lock:a"]);
}

#[tokio::test]
async fn a_server_that_became_a_replica_is_read_only() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "1|ours");
    lab.granted(&ours).await;
    lab.server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    assert_refused(
        lab.acquire(&claim("lock:b", "1|ours")).await,
        Refusal::ReadOnly,
    );
    assert!(!lab.link.is_usable(), "the master may be elsewhere by now");
}

#[tokio::test]
async fn a_renewal_that_meets_a_replica_fails_and_ends_the_connection() {
    let lab = Lab::new().await;
    let ours = claim("lock:a", "1|ours");
    lab.granted(&ours).await;
    lab.server.cmd(&["REPLICAOF", "127.0.0.1", "1"]).await;
    let outcomes = lab.link.renew(&[renewal(&ours, 3600)], CAP).await;
    assert_eq!(outcomes.unwrap(), [Renewed::Failed]);
    assert!(!lab.link.is_usable());
}
