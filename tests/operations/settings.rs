//! What the server's settings do to locks, where a page recommends or warns of one.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockGuard, LockPool, LostCause, Refusal};
use redis::Value;

use crate::pool;

const CAP: Duration = Duration::from_secs(20);
const OFTEN: Duration = Duration::from_millis(50);

/// Takes a lock that is renewed often.
async fn renewed(pool: &LockPool, ttl: Duration) -> LockGuard {
    let request = pool.lock("item:7").ttl(ttl).renew_every(OFTEN);
    request.acquire().await.unwrap()
}

/// A killed server has written what it answered. With `everysec` it has not if its last `fsync` still
/// ran: it postpones its writes meanwhile, and answers.
#[tokio::test]
async fn a_killed_server_with_an_aof_loses_nothing() {
    for fsync in ["always", "no"] {
        killed_with_an_aof(fsync).await;
    }
}

async fn killed_with_an_aof(fsync: &str) {
    let args = ["--appendonly", "yes", "--appendfsync", fsync];
    let server = RedisServer::builder().args(args).start();
    let pool = pool(&server).await;
    let held = renewed(&pool, Duration::from_secs(60)).await;
    let value: String = server.ask(&["GET", "lock:item:7"]).await;
    server.kill9();
    server.restart_empty();
    until("it is renewed there", CAP, async || {
        server.commandstats("pexpire").await > 0
    })
    .await;
    assert!(held.is_held());
    held.verify().await.unwrap();
    assert_eq!(server.ask::<String>(&["GET", "lock:item:7"]).await, value);
}

/// With `min-replicas-to-write` a master without replicas neither grants nor renews.
#[tokio::test]
async fn a_master_without_its_replicas_ends_held_locks_at_their_deadline() {
    let server = RedisServer::start();
    let pool = pool(&server).await;
    let held = renewed(&pool, Duration::from_secs(1)).await;
    let words = ["CONFIG", "SET", "min-replicas-to-write", "1"];
    server.cmd(&words).await;
    let refused = pool.lock("item:8").acquire().await.unwrap_err();
    let LockError::Refused { reason, .. } = refused else {
        panic!("{refused}");
    };
    assert_eq!(reason, Refusal::Misconfigured);
    assert_eq!(held.lost().await, LostCause::Deadline);
}

/// The ids of the connections of this type.
async fn clients(server: &RedisServer, kind: &str) -> Vec<String> {
    let list: String = server.ask(&["CLIENT", "LIST", "TYPE", kind]).await;
    let ids = list.lines().filter_map(|line| line.split(' ').next());
    ids.map(str::to_owned).collect()
}

/// `timeout` ends idle connections, but not subscribed ones.
#[tokio::test]
async fn a_timeout_spares_connections_of_dlock() {
    let server = RedisServer::start();
    let pool = pool(&server).await;
    // Released explicitly: for a dropped guard the watchdog would open a connection meanwhile.
    let held = pool.lock("item:7").acquire().await.unwrap();
    held.release().await.unwrap();
    let mut idle = server.connect().await;
    let id: i64 = redis::cmd("CLIENT")
        .arg("ID")
        .query_async(&mut idle)
        .await
        .unwrap();
    let ours = clients(&server, "pubsub").await;
    assert!(!ours.is_empty());
    server.cmd(&["CONFIG", "SET", "timeout", "1"]).await;
    until("the idle one is closed", CAP, async || {
        let all = clients(&server, "normal").await;
        !all.contains(&format!("id={id}"))
    })
    .await;
    assert_eq!(clients(&server, "pubsub").await, ours);
    let refused: redis::RedisResult<Value> = redis::cmd("PING").query_async(&mut idle).await;
    assert!(refused.is_err());
}
