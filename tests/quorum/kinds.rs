//! Readers, writers and owners over several nodes: who may be in beside whom, across processes and
//! while nodes fail, and what is seen of it.

use std::time::Duration;

use dlock_harness::{Child, Interval, Proxy, RedisServer, until};
use dlock_runtime::{LockGuard, LockPool, LockRequest, Released};
use dlock_tests::overlaps::Promise;

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

const PROCESSES: u64 = 3;
const TASKS: u64 = 3;
const ROUNDS: u64 = 40;

/// Processes in the worker's mode `kinds`, while each node fails in turn.
async fn turns(mix: &str) -> Vec<Interval> {
    let (nodes, meeting) = (Nodes::voting(3).await, RedisServer::start());
    let wires: Vec<_> = nodes.0.iter().map(|it| Proxy::start(it.addr())).collect();
    let hosts: Vec<_> = wires.iter().map(|it| it.addr().to_string()).collect();
    let worker = |seed: u64| {
        const NO_ENVS: [(&str, &str); 0] = [];
        let arguments = [
            "kinds".to_owned(),
            format!("redlock://{}", hosts.join(",")),
            format!("meet={}", meeting.url()),
            format!("mix={mix}"),
            format!("seed={seed}"),
            format!("parties={PROCESSES}"),
            format!("tasks={TASKS}"),
            format!("rounds={ROUNDS}"),
            "apart=0".to_owned(),
            // A hold that two nodes granted is lost if one of them stops before the third is back.
            "may_lose=1".to_owned(),
            format!("ttl_ms={}", MAX_TTL.as_millis()),
            format!("max_ttl_ms={}", MAX_TTL.as_millis()),
        ];
        Child::spawn(env!("CARGO_BIN_EXE_worker"), arguments, NO_ENVS)
    };
    let mut fleet: Vec<_> = (1..=PROCESSES).map(worker).collect();
    for node in [0, 1, 2] {
        progress(&fleet, 10).await;
        nodes.0[node].stop_signal();
        progress(&fleet, 10).await;
        nodes.0[node].cont();
        wires[node].cut_all();
        progress(&fleet, 10).await;
        wires[node].delay(Duration::from_millis(50));
        progress(&fleet, 10).await;
        wires[node].pass();
    }
    for child in &mut fleet {
        child.expect_line("done", CAP).await;
        assert!(child.wait(CAP).await.success(), "{:#?}", child.lines());
    }
    nodes.until_empty("item").await;
    let holds = ended(&fleet);
    let all = usize::try_from(PROCESSES * TASKS * ROUNDS).unwrap();
    assert!(holds.len() >= all * 9 / 10, "{} of {all}", holds.len());
    holds
}

fn ended(fleet: &[Child]) -> Vec<Interval> {
    let lines = fleet.iter().flat_map(Child::lines);
    lines.filter_map(|it| Interval::parse(&it)).collect()
}

async fn progress(fleet: &[Child], more: usize) {
    let before = ended(fleet).len();
    let is_done = |it: &Child| it.lines().last().is_some_and(|it| it == "done");
    until("the fleet goes on", CAP, async || {
        ended(fleet).len() >= before + more || fleet.iter().all(is_done)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_is_alone_and_readers_are_not_while_nodes_fail() {
    let most = Promise::ReadWrite.check_of_quorum(&turns("rw").await);
    assert!(most.unwrap() > 1, "no two ever read together");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_owners_are_never_in_and_one_is_in_many_times_while_nodes_fail() {
    let most = Promise::Owners.check_of_quorum(&turns("owners").await);
    assert!(most.unwrap() > 1, "no owner was ever in twice");
}

fn reader(pool: &LockPool) -> LockRequest {
    pool.lock("k").read().wait(CAP)
}

fn writer(pool: &LockPool) -> LockRequest {
    pool.lock("k").write().wait(CAP)
}

async fn holds(request: LockRequest) -> Option<LockGuard> {
    request.renew().try_acquire().await.unwrap()
}

/// Readers of which one always holds the lock do not keep a writer out for ever.
#[tokio::test]
async fn a_writer_that_waits_comes_in_although_somebody_always_reads() {
    let nodes = Nodes::voting(3).await;
    let (reading, writing) = (nodes.pool().await, nodes.pool().await);
    let readers: Vec<_> = (0..6)
        .map(|number| {
            let reading = reading.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(5 * number)).await;
                loop {
                    let guard = reader(&reading).acquire().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(30)).await;
                    guard.release().await.unwrap();
                }
            })
        })
        .collect();
    until("they read", CAP, async || {
        reading.status().unwrap().held >= 3
    })
    .await;
    let guard = writer(&writing).acquire().await.unwrap();
    assert!(guard.waited() > Duration::ZERO);
    // It is told when the last reader leaves, or asks again after a second.
    let most = dlock_harness::wait::scaled(Duration::from_secs(5));
    assert!(guard.waited() < most, "{:?}", guard.waited());
    readers.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Of the waiters of one process a node tells one; the other hears of its release at home.
#[tokio::test]
async fn writers_of_one_process_follow_each_other_at_once() {
    let nodes = Nodes::voting(3).await;
    let (first, others) = (nodes.pool().await, nodes.pool().await);
    let mut between = Duration::ZERO;
    for _ in 0..10 {
        let guard = writer(&first).renew().acquire().await.unwrap();
        let turns = [(); 2].map(|()| {
            let others = others.clone();
            tokio::spawn(async move {
                let guard = writer(&others).acquire().await.unwrap();
                let began = dlock_harness::now_ns();
                guard.release().await.unwrap();
                began
            })
        });
        until("they wait", CAP, async || {
            others.status().unwrap().waiting >= 2
        })
        .await;
        guard.release().await.unwrap();
        let [one, other] = turns;
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        between += Duration::from_nanos(one.abs_diff(other));
    }
    // By their polls it would be half a second each time.
    assert!(
        between < dlock_harness::wait::scaled(Duration::from_millis(2500)),
        "{between:?}"
    );
}

/// All who wait come in with the downgrade, one telling the next.
#[tokio::test]
async fn readers_that_wait_are_told_of_a_downgrade() {
    let nodes = Nodes::voting(3).await;
    let (writing, reading) = (nodes.pool().await, nodes.pool().await);
    let guard = writer(&writing).renew().acquire().await.unwrap();
    let readers: Vec<_> = (0..5)
        .map(|_| {
            let reading = reading.clone();
            tokio::spawn(async move { reader(&reading).renew().acquire().await.unwrap() })
        })
        .collect();
    until("they wait", CAP, async || {
        reading.status().unwrap().waiting >= 5
    })
    .await;
    guard.downgrade().await.unwrap();
    let mut all = Vec::new();
    for reader in readers {
        all.push(reader.await.unwrap());
    }
    for guard in all.iter().chain([&guard]) {
        guard.verify().await.unwrap();
        assert!(guard.fence() >= all[0].fence().min(guard.fence()));
    }
    assert!(holds(writer(&writing)).await.is_none());
    assert_eq!(guard.release().await.unwrap(), Released::Freed);
}

/// An owner's entries in two pools, with one of three nodes away: the last one frees the lock.
#[tokio::test]
async fn an_owners_last_entry_frees_the_lock() {
    let nodes = Nodes::voting(3).await;
    let pools = [nodes.pool().await, nodes.pool().await];
    let own =
        |pool: &LockPool, owner: &str| pool.lock("k").reentrant().owner(owner).wait(CAP).renew();
    let one = own(&pools[0], "ann").acquire().await.unwrap();
    nodes.0[2].stop_signal();
    let two = own(&pools[1], "ann").acquire().await.unwrap();
    assert_eq!(one.fence(), two.fence());
    assert!(holds(own(&pools[0], "bob")).await.is_none());
    let released = one.release().await.unwrap();
    assert_eq!(released, Released::StillHeld(1));
    assert_eq!(two.release().await.unwrap(), Released::Freed);
    assert!(holds(own(&pools[0], "bob")).await.is_some());
    nodes.0[2].cont();
    nodes.until_empty("k").await;
}
