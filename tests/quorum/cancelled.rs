//! An acquire that is dropped at each of its polls leaves nothing at any node, long before its lease
//! would end.

use std::time::{Duration, Instant};

use dlock_harness::polls::at_every_poll;
use dlock_harness::{RedisServer, until, wait::scaled};
use dlock_runtime::LockPool;

use crate::CAP;
use crate::nodes::{Nodes, locks_at};

/// Nothing is gone because this is over.
const LEASE: Duration = Duration::from_secs(8);

/// What was dropped is taken back within this time.
const TAKEN_BACK: Duration = Duration::from_secs(4);

async fn pool(nodes: &Nodes) -> LockPool {
    let config = nodes.config().max_ttl(LEASE).default_ttl(LEASE);
    LockPool::connect(config).await.unwrap()
}

/// Until no node of these has any lock.
async fn nothing_is_left(nodes: &[RedisServer], pool: &LockPool) {
    let begun = Instant::now();
    until("no node has a lock", CAP, async || {
        locks_at(nodes).await == 0
    })
    .await;
    let took = begun.elapsed();
    assert!(took < scaled(TAKEN_BACK), "it took {took:?}");
    if nodes.len() == 3 {
        until("nothing is cleaned up", CAP, async || {
            pool.status().unwrap().cleaning_up == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_dropped_acquire_is_taken_back_at_every_node() {
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let pool = pool(&nodes).await;
    at_every_poll(
        async |cut| {
            let key = format!("item:{}:{:?}", cut.polls, cut.when);
            let lock = pool.lock(key).acquire().await.unwrap();
            lock.release().await.unwrap();
        },
        async |_, _| nothing_is_left(&nodes.0, &pool).await,
    )
    .await;

    // The same while a node hangs; it is looked at when it goes on.
    nodes.0[1].stop_signal();
    let others = |nodes: Nodes| {
        let mut servers = nodes.0;
        let hung = servers.remove(1);
        (servers, hung)
    };
    let (others, hung) = others(nodes);
    at_every_poll(
        async |cut| {
            let key = format!("again:{}:{:?}", cut.polls, cut.when);
            let lock = pool.lock(key).acquire().await.unwrap();
            lock.release().await.unwrap();
        },
        async |_, _| nothing_is_left(&others, &pool).await,
    )
    .await;
    hung.cont();
    let mut all = others;
    all.push(hung);
    nothing_is_left(&all, &pool).await;
}

/// The lock is held: what a dropped waiter leaves must not keep it from anybody.
#[tokio::test]
async fn a_dropped_waiter_is_in_nobodys_way() {
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let (holder, pool) = (pool(&nodes).await, pool(&nodes).await);
    let held = holder.lock("item").acquire().await.unwrap();
    at_every_poll(
        async |_| {
            let wait = Duration::from_millis(30);
            let error = pool.lock("item").wait(wait).acquire().await;
            drop(error.unwrap_err());
        },
        async |_, _| {},
    )
    .await;
    // While it is released, too: the waiter may just be granted it.
    drop(held);
    nothing_is_left(&nodes.0, &pool).await;
    for polls in 1..6 {
        let held = holder.lock("item").acquire().await.unwrap();
        let cut = dlock_harness::polls::Cut {
            polls,
            when: dlock_harness::polls::When::Woken,
        };
        let waiter = pool.lock("item").wait(LEASE).acquire();
        let (lock, ()) = tokio::join!(dlock_harness::polls::dropped_at(cut, waiter), async {
            tokio::task::yield_now().await;
            held.release().await.unwrap();
            // Wakes a waiter that has polls left.
            for _ in 0..20 {
                dlock_harness::wait::pause(Duration::from_millis(2)).await;
            }
        });
        drop(lock);
        nothing_is_left(&nodes.0, &pool).await;
    }
}
