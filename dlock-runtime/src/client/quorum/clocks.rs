//! What a client makes of the nodes' clocks: the epoch that it proposes, and the time after which a
//! node creates nothing.
//!
//! The client's own wall clock is never used. Invariants: no minority of wild clocks moves a
//! proposal; a stamp for one node is never earlier than a stamp that was made for the same acquire
//! before, so a cancel is conclusive only when the acquire can't run any more.

use std::time::Duration;

use super::nodes::NodeCount;
use crate::values::fence::highest_epoch;
use crate::values::moment::Moment;

/// Proposals are rounded down to this many µs, so that acquires of about the same time share one.
const PROPOSAL_STEP: u64 = 1024;

/// The epoch to propose, from each node's estimated time and the highest epoch that a busy node told:
/// the smallest estimate of the largest quorum of them, or one above what is known to be drawn.
/// Estimates of nodes that are away may be missing.
pub(crate) fn proposal(nodes: NodeCount, estimates: &mut [u64], highest_seen: u64) -> u64 {
    estimates.sort_unstable_by(|a, b| b.cmp(a));
    let index = nodes.minority().min(estimates.len().saturating_sub(1));
    let time = estimates.get(index).copied().unwrap_or(0);
    (time - time % PROPOSAL_STEP).max(highest_seen.saturating_add(1))
}

/// The highest epoch that a node can have drawn; `estimates` as for [`proposal`]. A higher one is no
/// vote.
pub(crate) fn highest_believed(nodes: NodeCount, estimates: &mut [u64]) -> u64 {
    highest_epoch(proposal(nodes, estimates, 0))
}

/// The pool's own clock, in µs: it runs with the process's monotonic clock and never steps. Bounds
/// that hold at all nodes are stated by it.
pub(crate) fn pool_time(now: Moment) -> u64 {
    now.as_nanos() / 1000 + 1 // 0 says that there is no bound
}

/// By how much one node's clock is ahead of the pool's, in µs, at most.
///
/// The largest value of the last one to two windows: a node whose clock was set back keeps its old
/// stamps until then. So it is for times after which nothing may be created, and not for those until
/// which something is to be kept (`Keep::by_another`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Offset {
    window: Duration,
    current: i64,
    previous: i64,
    until: Moment,
}

impl Offset {
    /// `window`: the longest time between an acquire and its last cancel.
    pub(crate) fn new(window: Duration, now: Moment) -> Self {
        Self {
            window,
            current: i64::MIN,
            previous: i64::MIN,
            until: now.plus(window),
        }
    }

    /// The node's time is estimated as `time`.
    pub(crate) fn heard(&mut self, time: u64, now: Moment) {
        if now >= self.until {
            let skipped = now >= self.until.plus(self.window);
            self.previous = if skipped { i64::MIN } else { self.current };
            self.current = i64::MIN;
            self.until = now.plus(self.window);
        }
        let offset = time
            .cast_signed()
            .wrapping_sub(pool_time(now).cast_signed());
        self.current = self.current.max(offset);
    }

    /// The node's stamp for a bound by the pool's clock; 0 stays 0.
    pub(crate) fn stamp(&self, bound: u64) -> u64 {
        let offset = self.current.max(self.previous);
        if bound == 0 || offset == i64::MIN {
            return bound;
        }
        bound.saturating_add_signed(offset)
    }
}
