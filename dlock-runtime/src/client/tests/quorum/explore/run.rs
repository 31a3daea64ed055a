//! The bounds of an exploration: who takes part, what may go wrong, how often, and for how long.

use std::time::Duration;

use super::kinds::Role;
use super::mutants::Mutant;
use crate::client::lease::LeaseTerms;
use crate::client::quorum::nodes::NodeCount;
use crate::values::bounds::Bounds;
use crate::values::handoff::Handoff;
use crate::values::ttl::{Margin, Ttl};

/// What the world moves by.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// The same in the nodes' unit.
pub(super) const TICK_MICROS: u64 = 1_000_000;

/// A ttl or a command timeout that does not end within a run.
pub(super) const LONG: u32 = 100;

/// What costs one of the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Fault {
    /// A node crashes, and restarts at any time with its data, and votes at once …
    Crash,
    /// … or empty, and votes after the quarantine.
    Empty,
    /// A node's clock is set forward, or back, by [`Run::jump`].
    Forward,
    Back,
    Client,
    /// Another lock's acquire draws a number from the node's counter.
    OtherKey,
    /// An administrator takes a held lock away, at one node after the other.
    Evict,
}

/// Which number a client proposes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Proposals {
    /// Any of these.
    Any(&'static [u64]),
    /// The nodes' time, with what each client's estimate is wrong by, in ticks.
    Time(&'static [i64]),
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) nodes: usize,
    pub(super) clients: usize,
    /// What each client asks for; exclusive locks for those that are not named.
    pub(super) roles: &'static [Role],
    /// A writer may become a reader.
    pub(super) downgrades: bool,
    /// How many tokens a client has.
    pub(super) attempts: u16,
    /// The nodes' lease, in ticks.
    pub(super) ttl: u32,
    /// How many ticks of it no client counts on.
    pub(super) margin: u32,
    /// How long after its sending a ballot may be executed, in ticks.
    pub(super) timeout: u32,
    /// How many ticks the run lasts.
    pub(super) ticks: u32,
    /// How often a client may give up without a cause.
    pub(super) give_ups: u8,
    pub(super) budget: u8,
    pub(super) faults: &'static [Fault],
    pub(super) jump: u32,
    /// A node may end a lease a tick early.
    pub(super) drifts: bool,
    /// How many rounds of renewal a holder may send.
    pub(super) renewals: u8,
    /// A renewal asks nodes that do not have the lock for their vote.
    pub(super) reseeds: bool,
    /// How often a lock may pass to another waiter of the process.
    pub(super) handoffs: u16,
    pub(super) proposals: Proposals,
    /// How many ticks a node that restarted empty does not vote.
    pub(super) quarantine: u32,
    /// By how many ticks each node's clock is ahead at first.
    pub(super) skews: &'static [i64],
    /// Properties that are not promised, and not judged.
    pub(super) off: &'static [&'static str],
    pub(super) mutant: Option<Mutant>,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            nodes: 3,
            clients: 2,
            roles: &[],
            downgrades: false,
            attempts: 2,
            ttl: 2,
            margin: 0,
            timeout: 1,
            ticks: 4,
            give_ups: 0,
            budget: 0,
            faults: &[],
            jump: 2,
            drifts: false,
            renewals: 0,
            reseeds: false,
            handoffs: 0,
            proposals: Proposals::Any(&[0]),
            quarantine: 2,
            skews: &[],
            off: &[],
            mutant: None,
        }
    }
}

impl Run {
    pub(super) fn nodes(&self) -> NodeCount {
        NodeCount::new(self.nodes).expect("odd, 3 to 9")
    }

    /// What a node keeps a key for.
    pub(super) fn lease(&self) -> Ttl {
        Ttl::new(TICK * self.ttl).expect("a ttl in range")
    }

    /// What a client counts on.
    pub(super) fn terms(&self) -> LeaseTerms {
        let margin = if self.is(Mutant::NoMargin) {
            0
        } else {
            self.margin
        };
        LeaseTerms {
            ttl: Ttl::new(TICK * (self.ttl - margin)).expect("a ttl in range"),
            renew: None,
            bounds: Bounds::default(),
            margin: Margin::DEFAULT,
        }
    }

    pub(super) fn handoff(&self) -> Handoff {
        Handoff {
            most: self.handoffs,
            within: TICK * self.ttl,
            part: 1,
        }
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    pub(super) fn judges(&self, property: &str) -> bool {
        !self.off.contains(&property)
    }

    pub(super) fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}
