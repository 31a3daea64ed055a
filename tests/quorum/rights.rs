//! The rights in `docs/operate/topologies.md`, beside those of one server: enough for every
//! operation of a lock of several nodes.

use std::time::Duration;

use dlock_runtime::{Config, LockPool};
use dlock_tests::served::documented_user;
use futures_util::future::join_all;

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

const PAGE: &str = include_str!("../../docs/operate/topologies.md");

fn documented() -> Vec<&'static str> {
    let line = PAGE
        .lines()
        .find_map(|line| line.strip_prefix("ACL SETUSER dlock "));
    line.unwrap().split(' ').collect()
}

/// A pool of the user that the pages describe.
async fn pool(nodes: &Nodes) -> LockPool {
    let urls = nodes
        .0
        .iter()
        .map(|it| format!("redis://dlock:secret@{}", it.addr()));
    let config = Config::redlock(urls)
        .max_ttl(MAX_TTL)
        .default_ttl(Duration::from_secs(1));
    LockPool::connect(config).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_rights_are_enough() {
    let nodes = Nodes::voting(3).await;
    for node in &nodes.0 {
        documented_user(node, &documented()).await;
        node.cmd(&["ACL", "LOG", "RESET"]).await;
    }
    let (one, other) = (pool(&nodes).await, pool(&nodes).await);
    let held = one.lock("item").renew().acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = other.lock("item").wait(CAP);
        async move { lock.acquire().await.unwrap().fence() }
    });
    dlock_harness::until("the waiter left its address", CAP, async || {
        let key = ["ZCARD", "lock:@h:{lock:item}"];
        nodes.0[0].ask::<usize>(&key).await > 0
    })
    .await;
    held.verify().await.unwrap();
    held.extend(MAX_TTL).await.unwrap();
    let first = held.fence();
    held.release().await.unwrap();
    assert!(waiter.await.unwrap() > first);
    let together = (0..24).map(|nth| one.lock(format!("item:{nth}")).acquire());
    for lock in join_all(together).await {
        lock.unwrap().release().await.unwrap();
    }
    nodes.until_empty("item").await;
    for node in &nodes.0 {
        assert_eq!(node.ask::<Vec<Vec<String>>>(&["ACL", "LOG"]).await.len(), 0);
    }
}
