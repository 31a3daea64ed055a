//! Primaries that are killed or handed over.

use std::time::Duration;

use dlock_harness::{Cluster, until};
use dlock_runtime::{LockPool, Wait};
use dlock_tests::recorded;

use crate::{CAP, key_at, pool};

const TTL: Duration = Duration::from_secs(120);

/// The others do not notice; what was replicated goes on at the replica.
#[tokio::test]
async fn a_lock_goes_on_when_its_primary_is_killed() {
    let cluster = Cluster::start_with_replicas(3, Duration::from_secs(1)).await;
    let [one, two] = [pool(&cluster).await, pool(&cluster).await];
    let take = async |pool: &LockPool, key: &str| {
        let request = pool.lock(key).ttl(TTL).renew().wait(Wait::Forever);
        request.acquire().await.unwrap()
    };
    let (key, other) = (key_at(&cluster, 0).await, key_at(&cluster, 1).await);
    let held = take(&one, &key).await;
    cluster.replicated(0, 3).await;
    cluster.nodes[0].kill9();
    // The other two thirds go on.
    let elsewhere = take(&two, &other).await;
    elsewhere.release().await.unwrap();
    until("it is held at the replica", CAP, async || {
        held.verify().await.is_ok()
    })
    .await;
    let fence = held.fence();
    held.release().await.unwrap();
    let next = take(&two, &key).await;
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

#[tokio::test]
async fn the_log_tells_of_other_masters_and_of_silence() {
    recorded::record();
    let cluster = Cluster::start_with_replicas(3, Duration::from_secs(1)).await;
    let pool = pool(&cluster).await;
    let request = pool.lock(key_at(&cluster, 0).await).ttl(TTL);
    let held = request.renew_every(Duration::from_millis(100));
    let held = held.acquire().await.unwrap();
    cluster.replicated(0, 3).await;
    let [went, came] = [0, 3].map(|node| format!(":{}", cluster.nodes[node].port()));
    let told = |words: &[&str]| recorded::lines(words).len();
    cluster.nodes[0].kill9();
    until("other masters", CAP, async || {
        told(&["INFO", "the cluster has other masters", &came, &went]) == 1
    })
    .await;
    let silence = ["WARN", "no node of the cluster says who serves", &came];
    let before = told(&silence); // while the replica was elected, perhaps
    for node in &cluster.nodes[1..] {
        node.kill9();
    }
    until("silence", CAP, async || told(&silence) == before + 1).await;
    drop(held);
}

/// A hand-over without loss: everybody gets the lock, one at a time, at the new primary.
#[tokio::test]
async fn two_hundred_waiters_outlast_a_failover() {
    let cluster = Cluster::start_with_replicas(3, Duration::from_secs(5)).await;
    let pools = [pool(&cluster).await, pool(&cluster).await];
    let key = key_at(&cluster, 0).await;
    let held = pools[0].lock(&*key).ttl(TTL).acquire().await.unwrap();
    let waiters: Vec<_> = (0..200)
        .map(|number| {
            let request = pools[number % 2].lock(&*key).ttl(TTL).wait(Wait::Forever);
            tokio::spawn(async move {
                let guard = request.acquire().await.unwrap();
                let fence = guard.fence();
                let _ = guard.release().await; // or by the watchdog
                fence
            })
        })
        .collect();
    until("they wait", CAP, async || {
        let waiting = pools.iter().map(|it| it.status().unwrap().waiting);
        waiting.sum::<usize>() >= 200
    })
    .await;
    cluster.nodes[3].cmd(&["CLUSTER", "FAILOVER"]).await;
    until("the replica is the primary", CAP, async || {
        let role: String = cluster.nodes[3].ask(&["INFO", "replication"]).await;
        role.contains("role:master")
    })
    .await;
    until("it is held at the new primary", CAP, async || {
        held.verify().await.is_ok()
    })
    .await;
    held.release().await.unwrap();
    let mut fences = Vec::new();
    for waiter in waiters {
        fences.push(tokio::time::timeout(CAP, waiter).await.unwrap().unwrap());
    }
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 200, "each has its own");
}
