//! Many locks: while a node hangs, renewed for long, and handed over between pools.

use std::time::{Duration, Instant};

use dlock_harness::{DelayProxy, Interval, Proxy, RedisServer, until, wait::scaled};
use dlock_runtime::{Config, LockPool, Wait};

use crate::fleet::Fleet;
use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

const TASKS: u64 = 64;

const LEASE: Duration = Duration::from_secs(30);

/// In `while_a_node_hangs`, what is left at a node is left for so long, if nobody takes it back.
const HUNG_LEASE: Duration = Duration::from_secs(8);

/// Takes and releases locks at this rate, if the machine can; the most entries of clean-up.
///
/// After half of the time the connection to the node is reset. When it goes on, it executes the votes
/// of locks that were released in the meantime, and must be rid of them long before their leases end.
async fn while_a_node_hangs(a_second: u64, length: Duration) -> (u64, usize) {
    let nodes = Nodes::start(3);
    nodes.until_voting(HUNG_LEASE).await;
    let wire = Proxy::start(nodes.0[1].addr());
    let urls = [nodes.0[0].url(), wire.url(), nodes.0[2].url()];
    let config = Config::redlock(urls)
        .max_ttl(HUNG_LEASE)
        .default_ttl(HUNG_LEASE)
        .command_timeout(CAP);
    let pool = LockPool::connect(config).await.unwrap();
    let first = pool.lock("first").acquire().await.unwrap();
    first.release().await.unwrap();
    until("nothing is cleaned up yet", CAP, async || {
        pool.status().unwrap().cleaning_up == 0
    })
    .await;
    nodes.0[1].stop_signal();
    let begun = Instant::now();
    let every = Duration::from_secs(TASKS) / u32::try_from(a_second).unwrap();
    let tasks = (0..TASKS).map(|task| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let mut pace = tokio::time::interval(every);
            let mut taken = 0;
            while begun.elapsed() < length {
                pace.tick().await;
                let lock = pool.lock(format!("item:{task}:{taken}")).acquire().await;
                tokio::time::sleep(every / 2).await; // held by many when the connection is reset
                lock.unwrap().release().await.unwrap();
                taken += 1;
            }
            taken
        })
    });
    let tasks: Vec<_> = tasks.collect();
    let (mut most, mut is_cut) = (0, false);
    while !tasks.iter().all(tokio::task::JoinHandle::is_finished) {
        let status = pool.status().unwrap();
        most = most.max(status.cleaning_up);
        if !is_cut && begun.elapsed() > length / 2 && status.held > 8 {
            is_cut = true;
            wire.refuse();
            wire.cut_all();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut taken: u64 = 0;
    for task in tasks {
        taken += task.await.unwrap();
    }
    assert!(is_cut);
    let at_end = pool.status().unwrap().cleaning_up;
    nodes.0[1].cont();
    let mut left = 0;
    until("the node has executed votes late", CAP, async || {
        left = nodes.locks().await;
        left > 0
    })
    .await;
    wire.pass();
    let since = Instant::now();
    until("no lock is left", CAP, async || nodes.locks().await == 0).await;
    let rid = since.elapsed();
    assert!(rid < scaled(HUNG_LEASE / 2), "locks were left for {rid:?}");
    // Where nothing was found, a vote could still come; and then none does.
    until("everything is cleaned up", CAP, async || {
        pool.status().unwrap().cleaning_up == 0
    })
    .await;
    println!(
        "{taken} locks in {length:?}: at most {most} clean-ups, {at_end} at the end; {left} locks {rid:?} after the node went on, no clean-up {:?} after it",
        since.elapsed()
    );
    assert_eq!(nodes.locks().await, 0);
    (taken, most)
}

/// A clean-up entry may stay for each lock that was taken while the node hangs, and no more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clean_up_of_a_hung_node_is_bounded_and_ends() {
    let (taken, most) = while_a_node_hangs(300, Duration::from_secs(2)).await;
    assert!(u64::try_from(most).unwrap() <= taken, "{most} of {taken}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, under `tests/run.sh --all`"]
async fn two_thousand_locks_a_second_while_a_node_hangs() {
    while_a_node_hangs(2000, Duration::from_secs(5)).await;
}

/// Pools that take turns; the time from the end of a body to the beginning of the next.
async fn handed_over(pools: usize, turns: usize, missing: Missing) -> (Duration, Duration) {
    let nodes = Nodes::voting(3).await;
    let wires = nodes
        .0
        .iter()
        .map(|it| DelayProxy::start(it.addr(), Duration::from_millis(1)));
    let wires: Vec<_> = wires.collect();
    let mut all = Vec::new();
    for _ in 0..pools {
        let config = Config::redlock(wires.iter().map(DelayProxy::url))
            .max_ttl(MAX_TTL)
            .default_ttl(MAX_TTL);
        let pool = LockPool::connect(config).await.unwrap();
        pool.lock("first").run(async |_| ()).await.unwrap();
        all.push(pool);
    }
    missing.happens_to(&nodes.0[2]);
    let mut tasks = Vec::new();
    for pool in all {
        tasks.push(tokio::spawn(async move {
            let mut bodies = Vec::new();
            for _ in 0..turns {
                let lock = pool
                    .lock("item")
                    .wait(Wait::Forever)
                    .acquire()
                    .await
                    .unwrap();
                let begun = Instant::now();
                tokio::time::sleep(Duration::from_millis(20)).await; // all others wait by then
                bodies.push((begun, Instant::now()));
                lock.release().await.unwrap();
                tokio::time::sleep(Duration::from_millis(5)).await; // another's turn
            }
            bodies
        }));
    }
    let mut bodies = Vec::new();
    for task in tasks {
        bodies.extend(task.await.unwrap());
    }
    bodies.sort();
    let gaps = bodies.windows(2).map(|it| it[1].0 - it[0].1);
    let mut gaps: Vec<_> = gaps.collect();
    gaps.truncate(gaps.len() - pools * 2); // the last have no contenders
    gaps.sort();
    (gaps[gaps.len() / 2], gaps[gaps.len() * 99 / 100])
}

/// Processes that take turns, over wires as in `handed_over`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement on a quiet machine, under `tests/run.sh --all`"]
async fn processes_hand_a_lock_over_within_five_round_trips() {
    for workers in [2, 4] {
        let nodes = Nodes::start(3);
        let far = Duration::from_millis(1);
        let wires = nodes.0.iter().map(|it| DelayProxy::start(it.addr(), far));
        let wires: Vec<_> = wires.collect();
        let addrs: Vec<_> = wires.iter().map(DelayProxy::addr).collect();
        let times = (Duration::from_millis(20), Duration::from_millis(5));
        let fleet = Fleet::at(nodes, &addrs, workers, times).await;
        fleet.counts(20).await; // all take turns by then
        let before = fleet.intervals().len();
        fleet.counts(400).await;
        let mut bodies = fleet.intervals();
        bodies.sort_by_key(|it| it.start_ns);
        bodies.drain(..before);
        let gap = |it: &[Interval]| it[1].start_ns.saturating_sub(it[0].end_ns);
        let mut gaps: Vec<_> = bodies.windows(2).map(gap).collect();
        gaps.sort_unstable();
        let share = |part: usize| trips(Duration::from_nanos(gaps[gaps.len() * part / 100]));
        let (half, most) = (share(50), share(99));
        println!("{workers} processes: p50 {half:.1}, p99 {most:.1} round trips");
        fleet.finish().await.check();
        assert!(most <= 5.0 * f64::from(dlock_harness::wait::slow_factor()));
    }
}

/// In round trips of these wires.
fn trips(time: Duration) -> f64 {
    time.as_secs_f64() / 0.002
}

/// What is the matter with one of the three nodes.
#[derive(Clone, Copy, Debug)]
enum Missing {
    Nothing,
    Killed,
    Hung,
}

impl Missing {
    fn happens_to(self, node: &RedisServer) {
        match self {
            Missing::Nothing => {}
            Missing::Killed => node.kill9(),
            Missing::Hung => node.stop_signal(),
        }
    }
}

/// Prints the times in round trips; the p99 of each number of pools.
async fn round_trips(missing: Missing) -> Vec<f64> {
    let mut all = Vec::new();
    for pools in [2, 4] {
        let (half, most) = handed_over(pools, 400 / pools, missing).await;
        println!(
            "{pools} pools, {missing:?}: p50 {:.1}, p99 {:.1} round trips",
            trips(half),
            trips(most)
        );
        all.push(trips(most) / f64::from(dlock_harness::wait::slow_factor()));
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement on a quiet machine, under `tests/run.sh --all`"]
async fn a_contended_lock_is_handed_over_within_five_round_trips() {
    for most in round_trips(Missing::Nothing).await {
        assert!(most <= 5.0, "{most:.1}");
    }
}

/// Every vote is needed, so votes are split more often.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement on a quiet machine, under `tests/run.sh --all`"]
async fn a_contended_lock_of_a_bare_quorum_is_handed_over() {
    for missing in [Missing::Killed, Missing::Hung] {
        for most in round_trips(missing).await {
            assert!(most <= 30.0, "{most:.1}");
        }
    }
}

/// `DLOCK_LEASES` leases (100,000) are renewed for several of their ttl; none is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes minutes, under `tests/run.sh --all`"]
async fn a_hundred_thousand_leases_are_renewed() {
    let leases = std::env::var("DLOCK_LEASES").map_or(100_000, |it| it.parse().unwrap());
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let config = Config::redlock(nodes.0.iter().map(RedisServer::url))
        .max_ttl(LEASE)
        .default_ttl(LEASE)
        .command_timeout(Duration::from_secs(5));
    let pool = LockPool::connect(config).await.unwrap();
    let begun = Instant::now();
    let mut held = Vec::new();
    while held.len() < leases {
        let first = held.len();
        let some = (first..leases.min(first + 500))
            .map(|nth| pool.lock(format!("item:{nth}")).renew().acquire());
        held.extend(futures_util::future::try_join_all(some).await.unwrap());
    }
    println!("{leases} leases taken in {:?}", begun.elapsed());
    let cpu = async || {
        let mut all = 0.0;
        for node in &nodes.0 {
            let info: String = node.ask(&["INFO", "cpu"]).await;
            let used = info
                .lines()
                .filter(|it| it.starts_with("used_cpu_user:") || it.starts_with("used_cpu_sys:"));
            all += used
                .map(|it| it.split(':').nth(1).unwrap().trim().parse::<f64>().unwrap())
                .sum::<f64>();
        }
        all
    };
    let (before, since) = (cpu().await, Instant::now());
    tokio::time::sleep(LEASE * 3).await; // the length of the measurement
    let lost = held.iter().filter(|it| !it.is_held()).count();
    println!(
        "{lost} lost in {:?}; the servers used {:.1} s of CPU",
        since.elapsed(),
        cpu().await - before
    );
    assert_eq!(lost, 0);
    for node in &nodes.0 {
        let keys: usize = node.ask(&["DBSIZE"]).await;
        assert!(keys >= leases, "{keys}");
    }
}
