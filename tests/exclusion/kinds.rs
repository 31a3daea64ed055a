//! Processes × tasks on one key of a real server, for the kinds with several holders, and for
//! several keys at once; with and without a process that is killed on the way. The same with a key
//! of its own for each task must fail the check.

use std::time::Duration;

use dlock_harness::{Child, Interval, RedisServer, check_exclusive, now_ns, until, wait};
use dlock_tests::overlaps::Promise;

use crate::fleet::{CAP, done, holds, worker};

const PROCESSES: u64 = 3;
const TASKS: u64 = 4;
const ROUNDS: u64 = 10;

/// Processes in the worker's mode `kinds`.
struct Fleet(Vec<Child>);

impl Fleet {
    fn start(server: &RedisServer, mix: &str, apart: bool) -> Self {
        let children = (1..=PROCESSES).map(|seed| {
            worker(&[
                "kinds",
                &server.url(),
                &format!("mix={mix}"),
                &format!("seed={seed}"),
                &format!("parties={PROCESSES}"),
                &format!("tasks={TASKS}"),
                &format!("rounds={ROUNDS}"),
                &format!("apart={}", u8::from(apart)),
                "ttl_ms=3000",
            ])
        });
        Self(children.collect())
    }

    async fn finish(mut self) -> Vec<Interval> {
        let mut holds = Vec::new();
        for child in &mut self.0 {
            holds.extend(done(child).await);
        }
        holds
    }

    /// Kills the first process after some turns; returns all its holds, the last of which ended
    /// with it.
    async fn kill_one(&mut self) -> Vec<Interval> {
        let mut doomed = self.0.remove(0);
        until("it had some turns", CAP, async || holds(&doomed).len() >= 8).await;
        doomed.kill();
        let killed_ns = now_ns();
        let mut holds = holds(&doomed);
        assert!(holds.len() < 30, "killed too late to prove anything");
        let lines = doomed.lines();
        let begun = lines.iter().filter_map(|line| line.strip_prefix("begins "));
        for mut begun in begun.filter_map(Interval::parse) {
            let is_same = |it: &Interval| {
                (it.start_ns, &it.who, &it.key) == (begun.start_ns, &begun.who, &begun.key)
            };
            if !holds.iter().any(is_same) {
                begun.end_ns = killed_ns;
                holds.push(begun);
            }
        }
        holds
    }
}

async fn nothing_is_left(server: &RedisServer) {
    until("nothing is left but the counter", CAP, async || {
        server.keys().await == ["lock:@fence", "parties"]
    })
    .await;
}

/// Checks the holds of a whole fleet, and of one with a killed process.
async fn check(mix: &str, check: impl Fn(&[Interval])) {
    for kills in [false, true] {
        let server = RedisServer::start();
        let mut fleet = Fleet::start(&server, mix, false);
        let mut holds = if kills {
            fleet.kill_one().await
        } else {
            Vec::new()
        };
        holds.extend(fleet.finish().await);
        let least = (PROCESSES - u64::from(kills)) * TASKS * ROUNDS;
        assert!(holds.len() as u64 >= least, "{} of {least}", holds.len());
        check(&holds);
        nothing_is_left(&server).await;
    }
}

/// The same with no key shared by two tasks: the check must notice that.
async fn check_apart(mix: &str) -> Vec<Interval> {
    let server = RedisServer::start();
    Fleet::start(&server, mix, true).finish().await
}

#[tokio::test]
async fn a_writer_is_alone_and_readers_are_not() {
    check("rw", |holds| {
        let most = Promise::ReadWrite.check(holds).unwrap();
        assert!(most > 1, "no two ever read together");
        let downgraded = |it: &&Interval| {
            let written = |w: &Interval| w.key == "w" && (w.fence, &w.who) == (it.fence, &it.who);
            it.key == "r" && holds.iter().any(written)
        };
        assert!(holds.iter().filter(downgraded).count() > 2);
    })
    .await;
    Promise::ReadWrite
        .check(&check_apart("rw").await)
        .unwrap_err();
}

#[tokio::test]
async fn permits_are_never_more_than_there_are() {
    check("permits", |holds| {
        let most = Promise::Permits(5).check(holds).unwrap();
        assert!(most > 1, "no two ever held together");
    })
    .await;
    let apart = check_apart("permits").await;
    Promise::Permits(5).check(&apart).unwrap_err();
}

#[tokio::test]
async fn two_owners_are_never_in_and_one_is_in_many_times() {
    check("owners", |holds| {
        let most = Promise::Owners.check(holds).unwrap();
        assert!(most > 1, "no owner was ever in twice");
    })
    .await;
    Promise::Owners
        .check(&check_apart("owners").await)
        .unwrap_err();
}

/// Tasks take the same keys in random order, among others that want one of them: no task waits for
/// ever, and each key has one holder at a time.
#[tokio::test]
async fn several_keys_in_any_order_deadlock_nobody_and_are_each_exclusive() {
    check("keys", |holds| check_exclusive(holds).unwrap()).await;
}

/// Two processes that only ask in opposite orders. Each holds both keys or none.
#[tokio::test]
async fn two_processes_with_opposite_orders_never_hold_half() {
    let server = RedisServer::start();
    let start = |order: u64| {
        worker(&[
            "both",
            &server.url(),
            &format!("order={order}"),
            "parties=2",
            "tasks=3",
            "rounds=15",
        ])
    };
    let mut children = [start(0), start(1)];
    let mut holds = Vec::new();
    for child in &mut children {
        let its = wait::within(Duration::from_secs(60), done(child)).await;
        holds.extend(its.expect("nobody waits for ever"));
    }
    assert_eq!(holds.len(), 2 * 3 * 15 * 2, "each time both");
    check_exclusive(&holds).unwrap();
    nothing_is_left(&server).await;
}
