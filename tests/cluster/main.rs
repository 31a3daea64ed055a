//! A cluster: locks whose keys are on several nodes, slots that move while locks are held, renewed
//! and waited for, and primaries that go away.
//!
//! `spread` is about many locks on many nodes, `moves` about slots that are moved by hand,
//! `half_moved` about those whose move lasts, `reshard` about many of them, `losses` about primaries
//! that are killed or handed over, `mistakes` about wrong configurations, `incomplete` about runtimes
//! without timers or I/O, `encrypted` about TLS, `hostile` about a node that lies (`liar`), `clocks`
//! about clocks that differ, `partitions` about nodes that are heard by some.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod clocks;
mod encrypted;
mod half_moved;
mod hostile;
mod incomplete;
mod liar;
mod losses;
mod mistakes;
mod moves;
mod partitions;
mod reshard;
mod spread;

use std::time::Duration;

use dlock_harness::Cluster;
use dlock_runtime::{Config, LockPool};
use dlock_tests::locks;

/// A cap for anything that has to happen at all, on a busy machine.
const CAP: Duration = Duration::from_secs(60);

async fn pool(cluster: &Cluster) -> LockPool {
    LockPool::connect(config(cluster)).await.unwrap()
}

fn config(cluster: &Cluster) -> Config {
    Config::new(cluster.url()).command_timeout(Duration::from_secs(5))
}

/// A key whose lock this node has.
async fn key_at(cluster: &Cluster, node: usize) -> String {
    for number in 0.. {
        let key = format!("k{number}");
        let slot = cluster.slot(&format!("lock:{key}")).await;
        if cluster.owner(slot).await == node {
            return key;
        }
    }
    unreachable!("each node has slots")
}

/// A hash tag of this node's locks.
async fn tag_at(cluster: &Cluster, node: usize) -> String {
    for number in 0.. {
        let tag = format!("t{number}");
        let slot = cluster.slot(&tag).await;
        if cluster.owner(slot).await == node {
            return tag;
        }
    }
    unreachable!("each node has slots")
}

async fn only_counters_are_left(cluster: &Cluster) {
    locks::until_only_counters(&cluster.nodes, CAP).await;
}
