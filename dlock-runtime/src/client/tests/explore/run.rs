//! The bounds of an exploration: who takes part, what may go wrong, how often.

use std::time::Duration;

use super::fault::Kind;
use super::kind::{Asks, Keeps};
use super::mutants::Mutant;
use crate::client::lease::LeaseTerms;
use crate::values::bounds::Bounds;
use crate::values::handoff::Handoff;
use crate::values::ttl::{Margin, Ttl};

/// How a contender waits for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wants {
    /// In the local queue, for as long as it takes.
    Forever,
    /// In the local queue, and once outside of it when the wait is over.
    For,
    /// Only outside the local queue.
    Once,
}

/// What a contender requests, and on which terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    pub(super) asks: Asks,
    pub(super) terms: LeaseTerms,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The contenders, process by process.
    pub(super) processes: &'static [&'static [Wants]],
    /// What each process requests; by default an exclusive lock.
    pub(super) asks: &'static [Asks],
    /// How many tokens a process has.
    pub(super) attempts: u32,
    /// How many faults may happen, and which.
    pub(super) budget: u8,
    pub(super) faults: &'static [Kind],
    /// How often a contender may give up: a wait cancelled, a guard dropped.
    pub(super) cancels: u8,
    pub(super) tick: Duration,
    /// How often a waiter polls, if not each tick.
    pub(super) poll: Option<Duration>,
    pub(super) ttl: Duration,
    /// The ttl of each process, in ticks, if it differs.
    pub(super) ttls: &'static [u32],
    pub(super) renews: bool,
    pub(super) min_hold: Option<Duration>,
    /// The most hand-offs in a chain inside a process, at any time of the lease.
    pub(super) handoffs: u16,
    /// The local queue of a held lock is forgotten before another waiter enters.
    pub(super) forgets_queues: bool,
    /// A writer may go on as a reader.
    pub(super) downgrades: bool,
    pub(super) keeps: Keeps,
    /// Time may pass at any point; otherwise only when everything that is not stalled has been
    /// done.
    pub(super) asynchronous: bool,
    /// Pushes come without the time at which they were sent, so they make the waiter poll.
    pub(super) timeless_pushes: bool,
    /// An ACL forbids publishing.
    pub(super) publish_refused: bool,
    pub(super) mutant: Option<Mutant>,
    /// From every n-th state the world must come to rest …
    pub(super) drain_every: usize,
    /// … within this many ticks after the last fault.
    pub(super) rest: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            processes: &[&[Wants::Forever], &[Wants::Forever]],
            asks: &[],
            attempts: 1,
            budget: 0,
            faults: &[],
            cancels: 0,
            tick: Duration::from_secs(1),
            poll: None,
            ttl: Duration::from_secs(3),
            ttls: &[],
            renews: false,
            min_hold: None,
            handoffs: 0,
            forgets_queues: false,
            downgrades: false,
            keeps: Keeps::Nobodys,
            asynchronous: false,
            timeless_pushes: false,
            publish_refused: false,
            mutant: None,
            drain_every: 20,
            rest: 16,
        }
    }
}

impl Run {
    pub(super) fn asks(&self, at: usize) -> Asks {
        self.asks.get(at).copied().unwrap_or(Asks::Alone)
    }

    /// The terms of a process's leases.
    pub(super) fn terms(&self, at: usize) -> LeaseTerms {
        let length = self
            .ttls
            .get(at)
            .map_or(self.ttl, |ticks| self.tick * *ticks);
        let ttl = Ttl::new(length).expect("a ttl in range");
        LeaseTerms {
            ttl,
            renew: self.renews.then(|| length / 3),
            bounds: Bounds {
                min_hold: self.min_hold,
                ..Bounds::default()
            },
            margin: Margin::DEFAULT,
        }
    }

    /// Less than a tick, whatever the jitter.
    pub(super) fn poll_interval(&self) -> Duration {
        self.poll.unwrap_or(self.tick * 9 / 10 * 9 / 10)
    }

    pub(super) fn handoff(&self) -> Handoff {
        Handoff {
            most: self.handoffs,
            within: self.ttl,
            part: 1,
        }
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
