//! Everything at once: locks of all kinds in two pools of one process, and forged messages at every
//! moment of their lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dlock_harness::{until, wait};
use tokio::task::JoinSet;

use crate::forge;
use crate::lab::{CAP, Lab};
use crate::life::{Judge, Life};
use crate::observer::Beside;

const TASKS_OF_A_POOL: u64 = 8;

/// How long the storm lasts.
const STORM: Duration = Duration::from_secs(3);

/// The seed from the environment, or a new one for each run; it is printed, so that a run can be
/// repeated.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("DLOCK_TEST_SEED").ok();
    let seed = seed.map(|it| it.parse().expect("DLOCK_TEST_SEED is a number"));
    let seed = seed.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        u64::try_from(now.unwrap().as_nanos() % 1_000_000_007).unwrap()
    });
    eprintln!("DLOCK_TEST_SEED={seed}");
    seed
}

async fn storm(lab: Lab, seed: u64) {
    let (judge, ends) = (Arc::<Judge>::default(), Arc::<AtomicBool>::default());
    let lab = Arc::new(lab);
    let pools = [lab.pool().await, lab.pool().await];
    let beside = Beside::of(&lab, &pools[0]);
    let mut tasks = JoinSet::new();
    for (pool, number) in pools.iter().zip(0..) {
        for task in 0..TASKS_OF_A_POOL {
            let seed = seed.wrapping_add(number * TASKS_OF_A_POOL + task + 1);
            let life = Life::new(&lab, pool, (&judge, &ends), seed).await;
            tasks.spawn(life.live());
        }
    }
    let (mut eve, begun, mut said) = (lab.eve(seed).await, Instant::now(), 0);
    while begun.elapsed() < STORM {
        eve.look().await;
        for _ in 0..5 {
            let mut messages = Vec::new();
            for _ in 0..20 {
                messages.push(forge::message(&mut eve.seeded, &eve.seen));
            }
            said += eve.say(&messages).await;
        }
        if let Some(ended) = tasks.try_join_next() {
            panic!("nobody ends before the storm does: {ended:?}");
        }
    }
    ends.store(true, Ordering::SeqCst);
    let all = wait::within(CAP, async {
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    });
    all.await.expect("everybody gets the lock, or gives up");
    let held = judge.held.load(Ordering::SeqCst);
    assert!(said > 100 && held > 50, "{said} messages, {held} holds");
    assert!(beside.cycles() > 50, "{} cycles beside", beside.cycles());
    drop(beside);
    for pool in &pools {
        // A late answer of a node leaves a release open for a `command_timeout`, and a shutdown waits
        // no longer than that.
        until("nothing is open", CAP, async || {
            let status = pool.status().unwrap();
            status.in_flight + status.cleaning_up == 0
        })
        .await;
        let drained = pool.shutdown().await;
        assert!(drained.is_complete(), "{drained:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_comes_of_forgeries_where_grants_are_authenticated() {
    storm(Lab::with_a_secret().await, seed()).await;
}

/// Messages that are published at one master about locks at another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_comes_of_forgeries_in_a_cluster() {
    storm(Lab::cluster_with_a_secret().await, seed()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_comes_of_forgeries_at_nodes() {
    storm(Lab::nodes_with_a_secret().await, seed()).await;
}

/// A node's messages grant nothing, so that there is nothing to authenticate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_comes_of_forgeries_at_nodes_without_a_secret() {
    storm(Lab::nodes_without_a_secret().await, seed()).await;
}
