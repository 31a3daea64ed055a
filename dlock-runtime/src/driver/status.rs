//! What a pool is doing at this moment, counted for people.
//!
//! It reads what is there anyway, so the locks pay nothing for it.

use std::collections::BTreeMap;

use crate::client::spec::AcquireSpec;
use crate::driver::core::Core;
use crate::driver::shared::PoolSnapshot;
use crate::values::node_status::NodeStatus;

/// What a pool holds and waits for, from [`LockPool::status`](crate::LockPool::status).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatus {
    /// Locks that this process holds, each key counted.
    pub held: usize,
    /// Calls of this process that wait for a lock in a queue.
    pub waiting: usize,
    /// Abandoned attempts and releases without a clear answer, which are being cleaned up.
    pub cleaning_up: usize,
    /// Acquires and releases that are sent but not answered yet.
    pub in_flight: usize,
    /// Open connections to the server, of all tokio runtimes and of the watchdog, without those
    /// that listen to sentinels; 0 for `memory://`.
    pub connections: usize,
    /// Releases that got no clear answer since the pool was made.
    pub unclear_releases: u64,
    /// The servers of which a quorum decides ([`Config::redlock`](crate::Config::redlock)), and
    /// which of them vote, as known at most a second ago; empty with one server.
    pub nodes: Vec<NodeStatus>,
    /// The classes of locks that are held or waited for, by their names.
    pub classes: Vec<ClassStatus>,
}

/// The locks of one class, in a [`PoolStatus`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStatus {
    /// The key's template, `item:<id>`; for a key without one, the place in the program that
    /// requests it.
    pub class: String,
    /// `exclusive`, `read`, `write`, `permits` or `owner`.
    pub kind: &'static str,
    /// Locks that this process holds.
    pub held: usize,
    /// Calls of this process that wait.
    pub waiting: usize,
}

/// The state of a pool, counted over all classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolCounts {
    pub(crate) held: usize,
    /// Calls of this process.
    pub(crate) waiting: usize,
    pub(crate) cleaning_up: usize,
    /// Acquires and releases that are sent and not answered.
    pub(crate) in_flight: usize,
}

pub(super) fn of(core: &Core) -> PoolStatus {
    let PoolSnapshot {
        counts,
        held,
        waiting,
    } = core.watchdog().snapshot();
    let mut classes = BTreeMap::<(String, &'static str), (usize, usize)>::new();
    let class = |spec: &AcquireSpec| (spec.asked().class().label(), spec.kind.label());
    for spec in held.iter().map(|cell| cell.spec()) {
        classes.entry(class(spec)).or_default().0 += 1;
    }
    for spec in &waiting {
        classes.entry(class(spec)).or_default().1 += 1;
    }
    let class = |((class, kind), (held, waiting))| ClassStatus {
        class,
        kind,
        held,
        waiting,
    };
    PoolStatus {
        held: counts.held,
        waiting: counts.waiting,
        cleaning_up: counts.cleaning_up,
        in_flight: counts.in_flight,
        connections: core.backend().connections(),
        unclear_releases: core.unclear_releases(),
        nodes: core.backend().nodes(),
        classes: classes.into_iter().map(class).collect(),
    }
}
