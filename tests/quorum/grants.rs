//! Taking a lock of several nodes, and giving it back.

use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{LockError, Released};

use crate::CAP;
use crate::nodes::Nodes;

#[tokio::test]
async fn a_lock_is_at_all_nodes_while_it_is_held_and_at_none_after() {
    let nodes = Nodes::voting(3).await;
    let (pool, other) = (nodes.pool().await, nodes.pool().await);

    let lock = pool.lock("item").function("first").renew();
    let lock = lock.acquire().await.unwrap();
    until("all nodes have it", CAP, async || {
        nodes.with_key("item").await == 3
    })
    .await;
    let error = other.lock("item").wait(Duration::ZERO).acquire().await;
    let Err(LockError::Busy { holder, .. }) = error else {
        panic!("{error:?}");
    };
    assert!(holder.to_string().contains("first"), "{holder}");
    lock.verify().await.unwrap();
    let first = lock.fence();
    assert_eq!(lock.release().await.unwrap(), Released::Freed);
    nodes.until_empty("item").await;

    let lock = other.lock("item").acquire().await.unwrap();
    assert!(lock.fence() > first);
}
