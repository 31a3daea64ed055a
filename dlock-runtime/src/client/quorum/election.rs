//! One acquire at all nodes that vote: who granted it, which epoch is its fence, and when it is won
//! or lost.
//!
//! ```text
//!                 q nodes hold one number
//! Voting ────────────────────────────────────────────▶ Won
//!   │  │ q granted, unequal; patience is over             ▲
//!   │  └────────▶ Adopting(highest) ── q nodes hold it ───┘
//!   │                 │  a late vote is higher: once more, with its number
//!   └── no quorum ────┴──▶ Lost
//! ```
//! Invariants: a vote counts once, against the configured number of nodes; an adopted number counts
//! only at a node whose key is ours; a node that was asked stays open until it answered that it
//! created nothing.

use super::nodes::{MOST_NODES, NodeCount, NodeId, NodeSet};
use crate::rules::ballots::{Adopted, Vote};

/// How often a higher number is adopted.
const ADOPTS_AT_MOST: u8 = 2;

/// One acquire at all nodes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Election {
    nodes: NodeCount,
    /// What each node said.
    at: [NodeVote; MOST_NODES],
    /// How many numbers were put to adoption.
    adopts: u8,
    /// Nobody waits for more equal draws.
    is_impatient: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum NodeVote {
    /// Nothing of ours is there: it was not asked, or said so.
    Nothing,
    /// It was asked for its vote.
    Asked,
    /// Its key is ours, with this number.
    Holds(u64),
    /// It was asked to adopt a number.
    Adopting,
    /// It granted, and did not confirm that it adopted: its vote does not count.
    NotAdopted,
    /// Its answer was unclear: its vote does not count, and something may be there.
    Open,
}

/// What follows from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ElectionStep {
    /// More answers have to come.
    Wait,
    /// A quorum granted with unequal numbers, and one more answer may make enough of them equal:
    /// wait for it no longer than a round trip, then say [`Election::hurry`].
    WaitBriefly,
    /// Send `adopt` with this number to these nodes.
    Adopt { epoch: u64, at: NodeSet },
    /// The lock is ours with this epoch, if the lease is not over.
    Won { epoch: u64 },
    /// It can't be won any more. What is [open](Election::open) has to be cancelled.
    Lost,
}

impl Election {
    /// `asked`: the nodes that the ballot is sent to; all others do not vote.
    pub(crate) fn new(nodes: NodeCount, asked: NodeSet) -> Self {
        let mut at = [NodeVote::Nothing; MOST_NODES];
        for node in asked.iter() {
            if let Some(at) = at.get_mut(node.index()) {
                *at = NodeVote::Asked;
            }
        }
        Self {
            nodes,
            at,
            adopts: 0,
            is_impatient: false,
        }
    }

    /// What to do before any answer: [`ElectionStep::Lost`] if too few nodes were asked.
    pub(crate) fn begin(&mut self) -> ElectionStep {
        self.step()
    }

    /// A node answered.
    pub(crate) fn voted(&mut self, node: NodeId, vote: &Vote) -> ElectionStep {
        if self.at(node) == NodeVote::Asked {
            let at = match vote {
                Vote::Granted { epoch, .. } => NodeVote::Holds(*epoch),
                Vote::Busy(_) | Vote::Late { .. } | Vote::WrongKind { .. } => NodeVote::Nothing,
            };
            self.set(node, at);
        }
        self.step()
    }

    /// A node gave no vote. `is_open`: it may have executed the ballot, or may yet.
    pub(crate) fn failed(&mut self, node: NodeId, is_open: bool) -> ElectionStep {
        match self.at(node) {
            NodeVote::Asked if is_open => self.set(node, NodeVote::Open),
            NodeVote::Asked => self.set(node, NodeVote::Nothing),
            NodeVote::Adopting => self.set(node, NodeVote::NotAdopted),
            NodeVote::Nothing | NodeVote::Holds(_) | NodeVote::NotAdopted | NodeVote::Open => {}
        }
        self.step()
    }

    /// A node was asked to adopt this number, and answered.
    pub(crate) fn adopted(&mut self, node: NodeId, epoch: u64, answer: Adopted) -> ElectionStep {
        if self.at(node) == NodeVote::Adopting {
            let at = match answer {
                Adopted::Yes => NodeVote::Holds(epoch),
                Adopted::Gone => NodeVote::Nothing,
            };
            self.set(node, at);
        }
        self.step()
    }

    /// The wait for one more equal draw is over.
    pub(crate) fn hurry(&mut self) -> ElectionStep {
        self.is_impatient = true;
        self.step()
    }

    /// The nodes where something of this acquire may be, or may yet come to be.
    pub(crate) fn open(&self) -> NodeSet {
        let is_open = |node: &NodeId| self.at(*node) != NodeVote::Nothing;
        self.nodes.ids().filter(is_open).collect()
    }

    /// The nodes that may yet execute their ballot.
    pub(crate) fn unanswered(&self) -> NodeSet {
        let is_unanswered =
            |node: &NodeId| matches!(self.at(*node), NodeVote::Asked | NodeVote::Open);
        self.nodes.ids().filter(is_unanswered).collect()
    }

    /// The nodes that granted, unless one has said since that its key is not ours.
    pub(crate) fn granted(&self) -> NodeSet {
        let has_granted = |node: &NodeId| {
            matches!(
                self.at(*node),
                NodeVote::Holds(_) | NodeVote::Adopting | NodeVote::NotAdopted
            )
        };
        self.nodes.ids().filter(has_granted).collect()
    }

    fn step(&mut self) -> ElectionStep {
        let quorum = self.nodes.quorum();
        if let Some(epoch) = self.held_by_a_quorum() {
            return ElectionStep::Won { epoch };
        }
        let (holding, waiting) = (
            self.count(|at| matches!(at, NodeVote::Holds(_))),
            self.waiting(),
        );
        if holding + waiting < quorum {
            return ElectionStep::Lost;
        }
        if holding < quorum || self.count(|at| at == NodeVote::Adopting) > 0 {
            return ElectionStep::Wait;
        }
        if !self.is_impatient && self.most_equal() + waiting >= quorum && waiting > 0 {
            return ElectionStep::WaitBriefly;
        }
        self.adopt()
    }

    /// Puts the highest number to adoption at all nodes that granted and hold another one.
    fn adopt(&mut self) -> ElectionStep {
        if self.adopts == ADOPTS_AT_MOST {
            return ElectionStep::Lost;
        }
        self.adopts += 1;
        let epoch = self.numbers().max().unwrap_or_default();
        let mut below = NodeSet::NONE;
        for node in self.nodes.ids() {
            if matches!(self.at(node), NodeVote::Holds(number) if number != epoch) {
                self.set(node, NodeVote::Adopting);
                below.insert(node);
            }
        }
        ElectionStep::Adopt { epoch, at: below }
    }

    fn held_by_a_quorum(&self) -> Option<u64> {
        let is_held = |number: &u64| self.holders_of(*number) >= self.nodes.quorum();
        self.numbers().filter(is_held).max()
    }

    fn most_equal(&self) -> usize {
        let holders = self.numbers().map(|number| self.holders_of(number));
        holders.max().unwrap_or(0)
    }

    fn holders_of(&self, number: u64) -> usize {
        self.numbers().filter(|it| *it == number).count()
    }

    fn numbers(&self) -> impl Iterator<Item = u64> {
        self.at.iter().filter_map(|at| match at {
            NodeVote::Holds(number) => Some(*number),
            _ => None,
        })
    }

    /// How many nodes may still grant or adopt.
    fn waiting(&self) -> usize {
        self.count(|at| matches!(at, NodeVote::Asked | NodeVote::Adopting))
    }

    fn count(&self, is: impl Fn(NodeVote) -> bool) -> usize {
        self.at.iter().filter(|at| is(**at)).count()
    }

    fn at(&self, node: NodeId) -> NodeVote {
        self.at
            .get(node.index())
            .copied()
            .unwrap_or(NodeVote::Nothing)
    }

    fn set(&mut self, node: NodeId, to: NodeVote) {
        if let Some(at) = self.at.get_mut(node.index()) {
            *at = to;
        }
    }
}

/// For fingerprints in which the order of the nodes does not count.
#[cfg(test)]
impl Election {
    pub(crate) fn known_of(&self, node: NodeId) -> impl std::hash::Hash + use<> {
        self.at(node)
    }

    pub(crate) fn progress(&self) -> (u8, bool) {
        (self.adopts, self.is_impatient)
    }
}
