//! What bounds an exploration: who takes part, what may go wrong, how often.

use std::time::Duration;

use super::fault::Kind;
use super::kind::{Asks, Keeps};
use super::mutants::Mutant;
use crate::policy::lease::Terms;
use crate::values::bounds::Bounds;
use crate::values::handoff::Handoff;
use crate::values::ttl::{Margin, Ttl};

/// How somebody wants the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Wants {
    /// In line, for as long as it takes.
    Forever,
    /// In line, and once past it when the wait is over.
    For,
    /// Past the line at once.
    Once,
}

/// What somebody asks for, and on which terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Order {
    pub(super) asks: Asks,
    pub(super) terms: Terms,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) name: &'static str,
    /// Who contends, process by process.
    pub(super) processes: &'static [&'static [Wants]],
    /// What each process asks for; an exclusive lock, where nothing is said.
    pub(super) asks: &'static [Asks],
    /// How many tokens a process has.
    pub(super) attempts: u32,
    /// How many faults may happen, and which.
    pub(super) budget: u8,
    pub(super) faults: &'static [Kind],
    /// How often somebody may go away: a wait cancelled, a guard dropped.
    pub(super) cancels: u8,
    pub(super) tick: Duration,
    /// How often a waiter polls, where it is not each tick.
    pub(super) poll: Option<Duration>,
    pub(super) ttl: Duration,
    /// The ttl of each process, in ticks, where it is another.
    pub(super) ttls: &'static [u32],
    pub(super) renews: bool,
    pub(super) min_hold: Option<Duration>,
    /// How often in a row a lock is handed on inside a process, at any time of its lease.
    pub(super) handoffs: u16,
    /// The gate of a lock that is held is forgotten before somebody else comes.
    pub(super) forgets_queues: bool,
    /// Who writes may go on as a reader.
    pub(super) downgrades: bool,
    pub(super) keeps: Keeps,
    /// Time may pass at any point; else only when everything that is not stalled has been done.
    pub(super) asynchronous: bool,
    /// Nothing is known of when a push was sent, so it makes the waiter ask.
    pub(super) timeless_pushes: bool,
    /// ACL lets nobody publish.
    pub(super) publish_refused: bool,
    pub(super) mutant: Option<Mutant>,
    /// From each so-manyth state the world must come to rest …
    pub(super) drain_every: usize,
    /// … within so many ticks after the last fault.
    pub(super) rest: u64,
    pub(super) most_states: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            name: "",
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
            most_states: 10_000_000,
        }
    }
}

impl Run {
    pub(super) fn asks(&self, at: usize) -> Asks {
        self.asks.get(at).copied().unwrap_or(Asks::Alone)
    }

    /// What a process asks of its leases.
    pub(super) fn terms(&self, at: usize) -> Terms {
        let length = self
            .ttls
            .get(at)
            .map_or(self.ttl, |ticks| self.tick * *ticks);
        let ttl = Ttl::new(length).expect("a ttl in range");
        Terms {
            ttl,
            renew: self.renews.then(|| length / 3),
            bounds: Bounds {
                min_hold: self.min_hold,
                ..Bounds::default()
            },
            margin: Margin::DEFAULT,
        }
    }

    /// Within a tick, whatever the jitter.
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
