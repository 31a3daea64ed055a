//! One round in which each node says yes or no: a renewal, or whether the lock is still ours.
//!
//! Invariant: yes needs a quorum of the configured nodes, and no needs that a quorum is out of reach
//! by answers that say no; an answer that did not come is neither.

use super::nodes::{NodeCount, NodeId, NodeSet};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tally {
    nodes: NodeCount,
    yes: NodeSet,
    no: NodeSet,
    /// No answer, and none will come in this round.
    failed: NodeSet,
}

/// What a round said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verdict {
    Yes,
    No,
    /// Neither: too many nodes did not answer. Another round may tell.
    Unknown,
}

impl Tally {
    pub(crate) fn new(nodes: NodeCount) -> Self {
        Self {
            nodes,
            yes: NodeSet::NONE,
            no: NodeSet::NONE,
            failed: NodeSet::NONE,
        }
    }

    /// Counts a node's answer; `None`: it failed. `Some`: the round is decided. Each node counts
    /// once.
    pub(crate) fn count(&mut self, node: NodeId, answer: Option<bool>) -> Option<Verdict> {
        let counted = [self.yes, self.no, self.failed];
        if !counted.iter().any(|set| set.contains(node)) {
            match answer {
                Some(true) => self.yes.insert(node),
                Some(false) => self.no.insert(node),
                None => self.failed.insert(node),
            }
        }
        self.verdict()
    }

    fn verdict(&self) -> Option<Verdict> {
        if self.yes.len() >= self.nodes.quorum() {
            return Some(Verdict::Yes);
        }
        if self.no.len() > self.nodes.minority() {
            return Some(Verdict::No);
        }
        let open = self.nodes.number() - self.yes.len() - self.no.len() - self.failed.len();
        let may_be = |votes: usize, needed: usize| votes + open >= needed;
        let is_open = may_be(self.yes.len(), self.nodes.quorum())
            || may_be(self.no.len(), self.nodes.minority() + 1);
        (!is_open).then_some(Verdict::Unknown)
    }
}
