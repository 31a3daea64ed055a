//! Who comes next at a lock of several nodes.

use std::time::{Duration, Instant};

use dlock_harness::{until, wait::scaled};
use dlock_runtime::{LockError, LockPool};

use crate::CAP;
use crate::nodes::{Nodes, wanting};

/// Each of them has all its turns, with rising fences.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_pools_take_turns() {
    let nodes = Nodes::voting(3).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let pool = nodes.pool().await;
        tasks.push(tokio::spawn(async move {
            let mut fences = Vec::new();
            for _ in 0..25 {
                let lock = pool.lock("item").wait(Duration::from_secs(30));
                let lock = lock.acquire().await.unwrap();
                fences.push(lock.fence());
                lock.release().await.unwrap();
            }
            fences
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        let fences = task.await.unwrap();
        assert!(fences.is_sorted(), "{fences:?}");
        all.extend(fences);
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 100);
}

/// A hint goes to a process whose waiter has gone, and is lost. The next one's own poll finds the
/// lock free, within a second and a tenth.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hint_to_one_that_waits_no_more_costs_the_next_a_second_at_most() {
    const MOST: Duration = Duration::from_millis(1100);
    const LEASE: Duration = Duration::from_secs(8);
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let pool = async || {
        let config = nodes.config().max_ttl(LEASE).default_ttl(LEASE);
        LockPool::connect(config).await.unwrap()
    };
    let (holder, gone, next) = (pool().await, pool().await, pool().await);
    let mut slowest = Duration::ZERO;
    for _ in 0..4 {
        let held = holder.lock("item").acquire().await.unwrap();
        let leaves = Duration::from_millis(300);
        let left = gone.lock("item").wait(leaves).acquire();
        let waits = async {
            wanted(&nodes, 1).await;
            let lock = next.lock("item").wait(CAP);
            let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
            wanted(&nodes, 2).await;
            Some(waiter)
        };
        let (left, waiter) = tokio::join!(left, waits);
        assert!(matches!(left, Err(LockError::Busy { .. })), "{left:?}");
        let begun = Instant::now();
        held.release().await.unwrap();
        let lock = waiter.unwrap().await.unwrap();
        slowest = slowest.max(begun.elapsed());
        lock.release().await.unwrap();
        nodes.until_empty("item").await;
        until("nobody is told any more", CAP, async || {
            wanting(&nodes.0[0], "item").await == 0
        })
        .await;
    }
    println!("{slowest:?} at most");
    assert!(
        slowest < MOST + scaled(Duration::from_millis(200)),
        "{slowest:?}"
    );
}

async fn wanted(nodes: &Nodes, by: usize) {
    for node in &nodes.0 {
        until("they wait", CAP, async || wanting(node, "item").await == by).await;
    }
}
