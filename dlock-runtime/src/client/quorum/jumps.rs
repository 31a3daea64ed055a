//! Which nodes' clocks were set, as their answers prove it, and how long those nodes do not vote then.
//!
//! An answer with time T to a command sent at s and read at h was given between s and h, so the
//! node's clock was then ahead of ours by at least T - h and at most T - s. A clock was set if no
//! rate at which clocks are slewed explains the bounds of two answers. If a quorum of nodes jumped at
//! one time by one amount, it was our clock that stood still: then all of them go on to vote.
//!
//! Invariants: no delay makes a clock look as if it was set; what a minority of wild clocks says
//! excuses no other node's jump.

use std::time::Duration;

use super::nodes::{MOST_NODES, NodeCount, NodeId};
use crate::client::clock_watch::ClockAnswer;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// chrony slews a clock by 8.3 % at most, as it is delivered, and others by less.
const SLEWED_PPM: i64 = 100_000;

/// A shorter jump is not told from others' adjustments. The margin of a lease of 2 s covers it.
const JUMP_AT_LEAST: i128 = 20_000_000;

/// The clocks of all nodes, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Jumps {
    nodes: NodeCount,
    /// For how long a node whose clock was set does not vote.
    max_ttl: Duration,
    /// By how much a clock may run faster or slower than ours.
    rate_ppm: i64,
    clocks: [NodeClock; MOST_NODES],
}

#[derive(Clone, Copy, Debug, Default)]
struct NodeClock {
    ahead: Option<Ahead>,
    last: Option<Jump>,
    /// The jumps before the last one end to count at this moment.
    until: Moment,
}

/// By how much a clock is ahead of ours, as the answers until `heard` prove it.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    least: i128,
    most: i128,
    sent: Moment,
    heard: Moment,
}

/// A clock was set between two moments, or ours stood still.
#[derive(Clone, Copy, Debug)]
struct Jump {
    after: Moment,
    before: Moment,
    least: i128,
    most: i128,
    /// From when on it does not count any more.
    until: Moment,
}

impl Jumps {
    pub(crate) fn new(nodes: NodeCount, max_ttl: Duration, margin: Margin) -> Self {
        Self {
            nodes,
            max_ttl,
            rate_ppm: SLEWED_PPM.max(margin.fastest_ppm()),
            clocks: [NodeClock::default(); MOST_NODES],
        }
    }

    /// A node answered. Answers may come in any order, and repeatedly.
    pub(crate) fn hear(&mut self, node: NodeId, answer: ClockAnswer) {
        let (max_ttl, rate) = (self.max_ttl, self.rate_ppm);
        let Some(clock) = self.clocks.get_mut(node.index()) else {
            return;
        };
        let new = Ahead::of(answer);
        let Some(known) = clock.ahead else {
            clock.ahead = Some(new);
            return;
        };
        if clock.last.is_some_and(|last| answer.sent < last.before) {
            return; // it may have been given before that jump
        }
        let (next, jumped) = known.then(new, rate);
        clock.ahead = Some(next);
        if let Some((least, most)) = jumped {
            if let Some(last) = clock.last {
                clock.until = clock.until.max(last.until);
            }
            let jump = Jump {
                after: known.sent,
                before: answer.heard,
                least,
                most,
                until: answer.heard.plus(max_ttl),
            };
            clock.last = Some(jump);
            self.excuse(jump);
        }
    }

    /// How long a node does not vote yet, because its clock was set.
    pub(crate) fn rest(&self, node: NodeId, now: Moment) -> Duration {
        let clock = self.clocks.get(node.index());
        clock.map_or(Duration::ZERO, |clock| {
            let last = clock.last.map_or(clock.until, |last| last.until);
            now.until(clock.until.max(last))
        })
    }

    /// If a quorum made this jump, it was ours.
    fn excuse(&mut self, jump: Jump) {
        let made_it = |clock: &&mut NodeClock| clock.last.is_some_and(|last| last.is_like(jump));
        if self.clocks.iter_mut().filter(made_it).count() < self.nodes.quorum() {
            return;
        }
        for clock in self.clocks.iter_mut().filter(made_it) {
            if let Some(last) = &mut clock.last {
                last.until = Moment::default();
            }
        }
    }
}

impl Ahead {
    fn of(ClockAnswer { sent, heard, time }: ClockAnswer) -> Self {
        let time = i128::from(time) * 1_000;
        Self {
            least: time - i128::from(heard.as_nanos()),
            most: time + 999 - i128::from(sent.as_nanos()), // µs, rounded down
            sent,
            heard,
        }
    }

    /// What both prove together; or the newer one alone, and by how much the clock was set, if they
    /// contradict each other.
    fn then(self, new: Self, rate_ppm: i64) -> (Self, Option<(i128, i128)>) {
        let (sent, heard) = (self.sent.max(new.sent), self.heard.max(new.heard));
        let between = self.sent.min(new.sent).until(heard).as_nanos();
        let between = i128::try_from(between).unwrap_or(i128::MAX / 1_000_000);
        let slewed = between.saturating_mul(i128::from(rate_ppm)) / 1_000_000;
        let (known_least, known_most) = (self.least - slewed, self.most + slewed);
        let (least, most) = (new.least.max(known_least), new.most.min(known_most));
        if least <= most {
            let both = Self {
                least,
                most,
                sent,
                heard,
            };
            return (both, None);
        }
        let jumped = (least - most >= JUMP_AT_LEAST)
            .then_some((new.least - known_most, new.most - known_least));
        (new, jumped)
    }
}

impl Jump {
    /// Whether both may be one event.
    fn is_like(self, other: Self) -> bool {
        self.after.max(other.after) <= self.before.min(other.before)
            && self.least.max(other.least) <= self.most.min(other.most)
    }
}
