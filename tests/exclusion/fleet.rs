//! Starts several `worker` processes that increment one counter, and checks the holds that they
//! print.

use std::path::PathBuf;
use std::time::Duration;

use dlock_harness::{Child, Interval, RedisServer, check_exclusive};

/// The time limit for a whole fleet, on a busy machine.
pub(crate) const CAP: Duration = Duration::from_secs(90);

#[derive(Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) mode: &'static str,
    pub(crate) processes: u64,
    pub(crate) tasks: u64,
    pub(crate) rounds: u64,
}

/// A fleet that is running.
pub(crate) struct Running {
    fleet: Fleet,
    children: Vec<Child>,
}

/// The result of a fleet.
pub(crate) struct Outcome {
    pub(crate) intervals: Vec<Interval>,
    /// The counter's value if no update was lost.
    pub(crate) expected: u64,
    pub(crate) counter: u64,
}

/// With `DLOCK_TEST_OLD_WORKER`, the path of the same program as an older build, each process with an
/// odd seed is of that build.
pub(crate) fn worker(arguments: &[&str]) -> Child {
    const NO_ENVS: [(&str, &str); 0] = [];
    let seed = arguments.iter().find_map(|it| it.strip_prefix("seed="));
    let is_odd = seed.is_some_and(|it| it.ends_with(['1', '3', '5', '7', '9']));
    let old = old_worker().filter(|_| is_odd);
    let this = env!("CARGO_BIN_EXE_worker").into();
    Child::spawn(old.unwrap_or(this), arguments, NO_ENVS)
}

pub(crate) fn old_worker() -> Option<PathBuf> {
    std::env::var_os("DLOCK_TEST_OLD_WORKER").map(PathBuf::from)
}

/// The holds that a process has printed so far.
pub(crate) fn holds(child: &Child) -> Vec<Interval> {
    let lines = child.lines();
    lines.iter().filter_map(|it| Interval::parse(it)).collect()
}

/// All holds of a process, which ends well.
pub(crate) async fn done(child: &mut Child) -> Vec<Interval> {
    child.expect_line("done", CAP).await;
    assert!(child.wait(CAP).await.success(), "{:#?}", child.lines());
    holds(child)
}

impl Fleet {
    pub(crate) fn start(self, server: &RedisServer) -> Running {
        let url = server.url();
        let children = (0..self.processes).map(|process| {
            worker(&[
                self.mode,
                &url,
                &format!("seed={}", process + 1),
                &format!("parties={}", self.processes),
                &format!("tasks={}", self.tasks),
                &format!("rounds={}", self.rounds),
            ])
        });
        Running {
            fleet: self,
            children: children.collect(),
        }
    }
}

impl Running {
    pub(crate) async fn finish(mut self, server: &RedisServer) -> Outcome {
        let mut intervals = Vec::new();
        for child in &mut self.children {
            intervals.extend(done(child).await);
        }
        let Fleet {
            processes,
            tasks,
            rounds,
            ..
        } = self.fleet;
        Outcome {
            intervals,
            expected: processes * tasks * rounds,
            counter: server.ask(&["GET", "counter"]).await,
        }
    }
}

impl Outcome {
    /// No update is lost, no two holds overlap, and the fencing tokens rise in the order of the
    /// grants.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Self {
            intervals,
            expected,
            counter,
        } = self;
        let holds = intervals.len();
        if u64::try_from(holds) != Ok(*expected) {
            return Err(format!("{holds} intervals, not {expected}"));
        }
        check_exclusive(intervals)?;
        if counter != expected {
            return Err(format!("counted to {counter}, not {expected}"));
        }
        Ok(())
    }
}
