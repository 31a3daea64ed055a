//! A vote that a node executes only after it was asked to take it back, over another connection,
//! leaves nothing there; nor does a lock that most nodes have lost.

use std::time::Duration;

use dlock_harness::proxy::{Action, Matcher, Proxy};
use dlock_harness::until;
use dlock_runtime::{Config, LockGuard, LockPool};

use crate::CAP;
use crate::nodes::Nodes;

/// Nothing is gone because this is over.
const LEASE: Duration = Duration::from_secs(8);

async fn leaves_nothing(end: impl AsyncFnOnce(LockGuard)) {
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let slow = Proxy::start(nodes.0[2].addr());
    let urls = [nodes.0[0].url(), nodes.0[1].url(), slow.url()];
    let config = Config::redlock(urls)
        .max_ttl(LEASE)
        .default_ttl(LEASE)
        .command_timeout(LEASE / 2);
    let pool = LockPool::connect(config).await.unwrap();
    let first = pool.lock("another").acquire().await.unwrap();
    first.release().await.unwrap(); // each node knows the scripts
    let about_the_lock = || Matcher::script().containing("lock:item");
    let vote = slow.on(about_the_lock(), Action::Hold);
    let taken_back = slow.on(about_the_lock().nth(2), Action::Signal);
    let lock = pool.lock("item").acquire().await.unwrap();
    until("the vote is on its way", CAP, async || vote.fired() == 1).await;
    end(lock).await;
    until("another connection takes it back", CAP, async || {
        taken_back.fired() == 1
    })
    .await;
    slow.release_held();
    until("the vote has drawn its epoch", CAP, async || {
        let keys = nodes.0[2].keys().await;
        let counters = keys.iter().filter(|key| key.contains("@fence"));
        counters.count() == 2
    })
    .await;
    until("no node has the lock", LEASE / 2, async || {
        nodes.with_key("item").await == 0
    })
    .await;
    until("nothing is cleaned up", CAP, async || {
        pool.status().unwrap().cleaning_up == 0
    })
    .await;
}

#[tokio::test]
async fn of_a_guard_that_is_dropped() {
    leaves_nothing(async |lock| drop(lock)).await;
}

#[tokio::test]
async fn of_a_release() {
    leaves_nothing(async |lock| {
        lock.release().await.unwrap();
    })
    .await;
}

/// Two nodes lose it, so that it is lost; the third one would keep others out.
#[tokio::test]
async fn a_lock_that_most_nodes_lost_is_taken_back_at_the_others() {
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let config = nodes.config().max_ttl(LEASE).default_ttl(LEASE);
    let pool = LockPool::connect(config).await.unwrap();
    for is_asked in [false, true] {
        let request = pool.lock("item");
        let request = if is_asked { request } else { request.renew() };
        let lock = request.acquire().await.unwrap();
        until("all have voted", CAP, async || {
            nodes.with_key("item").await == 3
        })
        .await;
        // A node whose vote the holder has not heard of is asked for it once more, so they lose it
        // until the holder has heard of both.
        until("it is lost", CAP, async || {
            for node in &nodes.0[..2] {
                node.cmd(&["DEL", "lock:item"]).await;
            }
            if is_asked {
                lock.verify().await.is_err()
            } else {
                !lock.is_held()
            }
        })
        .await;
        until("the third has not it either", LEASE / 2, async || {
            nodes.with_key("item").await == 0
        })
        .await;
    }
}
