//! What one claim may have left at the nodes, and which node may vote for it once more while it is
//! held: a *re-seed*.
//!
//! A lock that exactly a quorum granted would end with one of those nodes, although all others
//! vote. So a renewal asks a node that does not have the claim, and never said that it had, for its
//! vote. Invariants: a node gets no vote of a claim to execute while it may still execute an earlier
//! one; one that said that it has the claim is asked again only as another process, because what
//! was deleted, evicted or flushed must not come back; nothing is asked once the votes are being
//! taken back. Who may vote at all (quarantine, clocks) is decided where ballots are sent.

use super::election::Election;
use super::nodes::{MOST_NODES, NodeId, NodeSet};

/// A process of a node's server: how its run id begins. If two begin in the same way, the node is not
/// asked again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ServerProcess(u64);

impl ServerProcess {
    const UNKNOWN: ServerProcess = ServerProcess(0);

    pub(crate) fn of(run_id: &str) -> Self {
        let first = run_id.bytes().take(8);
        Self(first.fold(0, |number, byte| number << 8 | u64::from(byte)))
    }
}

/// Where something of a claim may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Footprint {
    nodes: NodeSet,
    /// By the pool's clock, the last time at which a node may execute a vote …
    votes_until: u64,
    /// … and the same of each node; 0: its vote was answered, or it was not asked.
    asked_until: [u64; MOST_NODES],
    hold: Option<ClaimHold>,
}

/// The claim holds the lock, and its votes are not being taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ClaimHold {
    epoch: u64,
    /// As which process each node last said that it has the claim.
    had_by: [ServerProcess; MOST_NODES],
    /// A writer that became a reader.
    reads: bool,
}

/// A vote that may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reseed {
    /// The epoch of the hold.
    pub(crate) epoch: u64,
    /// For a reader, although the claim is a writer's.
    pub(crate) reads: bool,
}

impl Footprint {
    /// Something is at these nodes only, or may come to be until this time.
    pub(crate) fn at(nodes: NodeSet, votes_until: u64) -> Self {
        Self {
            nodes,
            votes_until,
            asked_until: [0; MOST_NODES],
            hold: None,
        }
    }

    /// What ballots leave that may be executed until this time.
    pub(crate) fn of(election: &Election, votes_until: u64) -> Self {
        let mut it = Self::at(election.open(), votes_until);
        for node in election.unanswered().iter() {
            it.set_asked_until(node, votes_until);
        }
        it
    }

    /// The election was won with this epoch.
    pub(crate) fn won(
        mut self,
        epoch: u64,
        granted: impl Iterator<Item = (NodeId, ServerProcess)>,
    ) -> Self {
        self.hold = Some(ClaimHold {
            epoch,
            had_by: [ServerProcess::UNKNOWN; MOST_NODES],
            reads: false,
        });
        for (node, process) in granted {
            self.is_at(node, process);
        }
        self
    }

    /// The nodes where something of the claim may be, or may yet come to be.
    pub(crate) fn nodes(&self) -> NodeSet {
        self.nodes
    }

    /// The pool's time after which no node executes a vote for the claim.
    pub(crate) fn votes_until(&self) -> u64 {
        self.votes_until
    }

    /// A node said that it has the claim.
    pub(crate) fn is_at(&mut self, node: NodeId, process: ServerProcess) {
        let had_by = self.hold.as_mut().map(|it| &mut it.had_by);
        if let Some(had_by) = had_by.and_then(|it| it.get_mut(node.index())) {
            *had_by = process;
        }
    }

    /// The holder, a writer, counts as a reader.
    pub(crate) fn reads(&mut self) {
        if let Some(hold) = &mut self.hold {
            hold.reads = true;
        }
    }

    /// A node that may vote says that it does not have the claim: whether to ask for its vote, to be
    /// executed by `until`. `is_past`: by the node's clock this time of the pool's clock had passed
    /// when the node was asked whether it has the claim. If it passes between that and the answer,
    /// an earlier vote may be there; a release that found it would not look for this one.
    pub(crate) fn reseed(
        &mut self,
        (node, process): (NodeId, ServerProcess),
        until: u64,
        is_past: impl FnOnce(u64) -> bool,
    ) -> Option<Reseed> {
        let hold = self.hold?;
        let had_by = *hold.had_by.get(node.index())?;
        let earlier = *self.asked_until.get(node.index())?;
        let is_known = process != ServerProcess::UNKNOWN;
        let may = is_known && had_by != process && (earlier == 0 || is_past(earlier));
        may.then(|| {
            self.nodes.insert(node);
            self.set_asked_until(node, until);
            self.votes_until = self.votes_until.max(until);
            Reseed {
                epoch: hold.epoch,
                reads: hold.reads,
            }
        })
    }

    /// The node answered the vote that it was asked for.
    pub(crate) fn reseeded(&mut self, node: NodeId, process: ServerProcess, granted: bool) {
        self.set_asked_until(node, 0);
        if granted {
            self.is_at(node, process);
        }
    }

    /// The votes are being taken back.
    pub(crate) fn end(&mut self) {
        self.hold = None;
    }

    fn set_asked_until(&mut self, node: NodeId, until: u64) {
        if let Some(asked_until) = self.asked_until.get_mut(node.index()) {
            *asked_until = until;
        }
    }
}

/// For fingerprints in which the order of the nodes does not count.
#[cfg(test)]
impl Footprint {
    pub(crate) fn known_of(&self, node: NodeId) -> impl std::hash::Hash + use<> {
        let at = node.index();
        let had_by = self.hold.map(|it| it.had_by[at]);
        (self.nodes.contains(node), self.asked_until[at], had_by)
    }
}
