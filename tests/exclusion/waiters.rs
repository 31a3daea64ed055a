//! Starts processes that wait in the queue, and reads the turns that they print.

use std::time::Duration;

use dlock_harness::{Child, Interval, RedisServer, now_ns};
use dlock_runtime::{LockGuard, LockPool};
use dlock_tests::{locks, patient};

use crate::fleet::{CAP, done, holds, worker};

pub(crate) const LOCK: &str = "lock:turns";

/// A process in the worker's mode `waiters`.
pub(crate) struct Member(pub(crate) Child);

#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) tasks: u64,
    pub(crate) hold_ms: u64,
    pub(crate) mixed: bool,
}

/// Holds the lock, so that all others wait until it is released.
pub(crate) async fn closed(server: &RedisServer) -> LockGuard {
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let request = pool.lock("turns").ttl(Duration::from_secs(60)).renew();
    request.acquire().await.unwrap()
}

impl Kind {
    /// Starts a process that queues; returns when all its tasks have asked, and the process has its
    /// queue entry.
    pub(crate) async fn join(self, server: &RedisServer, already: usize) -> Member {
        let mut member = Member(worker(&[
            "line",
            &server.url(),
            &format!("seed={already}"),
            &format!("tasks={}", self.tasks),
            &format!("hold_ms={}", self.hold_ms),
            &format!("mixed={}", u8::from(self.mixed)),
        ]));
        member.0.expect_line("asked", CAP).await;
        locks::until_queued(server, "turns", already + 1, CAP).await;
        member
    }
}

impl Member {
    /// Its turns so far, by their start.
    pub(crate) fn turns(&self) -> Vec<Interval> {
        let mut turns = holds(&self.0);
        turns.sort_by_key(|turn| turn.start_ns);
        turns
    }

    /// The numbers of the tasks whose turns these are.
    pub(crate) fn order(&self) -> Vec<u64> {
        let number = |turn: &Interval| {
            let (_, number) = turn.who.rsplit_once(' ').expect("… task <number>");
            number.parse().unwrap()
        };
        self.turns().iter().map(number).collect()
    }

    pub(crate) async fn finish(&mut self) {
        done(&mut self.0).await;
    }

    /// Kills the process; returns all its turns, of which the last may have ended with it.
    pub(crate) fn kill(&mut self) -> Vec<Interval> {
        self.0.kill();
        let killed_ns = now_ns();
        let mut turns = self.turns();
        let lines = self.0.lines();
        let mut begun = lines.iter().filter_map(|it| it.strip_prefix("holds "));
        if let Some((fence, start_ns)) = begun.next_back().and_then(|last| last.split_once(' ')) {
            let fence = fence.parse().unwrap();
            if turns.iter().all(|turn| turn.fence != fence) {
                turns.push(Interval {
                    key: LOCK.to_owned(),
                    fence,
                    start_ns: start_ns.parse().unwrap(),
                    end_ns: killed_ns,
                    who: format!("the killed {}", self.0.pid()),
                });
            }
        }
        turns
    }
}
