//! Taking a lock of several nodes, and giving it back.

use std::time::Duration;

use dlock_runtime::{LockError, Released};

use crate::CAP;
use crate::nodes::Nodes;

#[tokio::test]
async fn a_lock_is_at_all_nodes_while_it_is_held_and_at_none_after() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;

    let lock = pool.lock("item").acquire().await.unwrap();
    dlock_harness::until("all nodes have it", CAP, async || {
        nodes.with_key("item").await == 3
    })
    .await;
    lock.verify().await.unwrap();
    let first = lock.fence();
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
    nodes.until_empty("item").await;

    let lock = pool.lock("item").acquire().await.unwrap();
    assert!(lock.fence() > first);
}

#[tokio::test]
async fn one_pool_keeps_another_out() {
    let nodes = Nodes::voting(3).await;
    let (one, other) = (nodes.pool().await, nodes.pool().await);

    let lock = one.lock("item").function("first").acquire().await.unwrap();
    let error = other
        .lock("item")
        .wait(Duration::ZERO)
        .acquire()
        .await
        .unwrap_err();
    let LockError::Busy { holder, .. } = &error else {
        panic!("{error}");
    };
    assert!(holder.to_string().contains("first"), "{holder}");
    lock.release().await.unwrap();
    let _next = other.lock("item").acquire().await.unwrap();
}

#[tokio::test]
async fn a_lease_is_renewed_at_all_nodes() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;

    let lock = pool
        .lock("item")
        .ttl(Duration::from_millis(1500))
        .renew()
        .acquire()
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(3200)).await;
    lock.verify().await.unwrap();
    assert_eq!(nodes.with_key("item").await, 3);
    drop(lock);
    nodes.until_empty("item").await;
}
