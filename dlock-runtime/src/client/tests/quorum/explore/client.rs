//! One client: its acquire or hold, the tokens that it still cancels, and its messages.

use std::fmt::Write as _;
use std::hash::{Hash, Hasher as _};
use std::time::Duration;

use super::kinds::Highest;
use super::world::{Fence, World, name};
use crate::client::lease::Lease;
use crate::client::local_queue::LocalQueue;
use crate::client::quorum::clocks::Offset;
use crate::client::quorum::election::Election;
use crate::client::quorum::footprint::{Footprint, ServerProcess};
use crate::client::quorum::nodes::{NodeId, NodeSet};
use crate::client::quorum::tally::Tally;
use crate::rules::ballots::{Adopted, Vote};
use crate::rules::tests::print::Print;
use crate::values::moment::Moment;

/// Longer than any run: the offset of a node whose clock was set back is never forgotten.
const WINDOW: Duration = Duration::from_secs(1 << 30);

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) at: usize,
    pub(super) is_alive: bool,
    /// How many tokens it has drawn.
    pub(super) drawn: u16,
    /// The highest epoch that a busy node told since it last held the lock.
    pub(super) seen_epoch: u64,
    pub(super) offsets: Vec<Offset>,
    pub(super) current: Option<Current>,
    pub(super) cancelled: Vec<Cancelling>,
    pub(super) messages: Vec<Message>,
}

/// The token that it uses.
#[derive(Clone, Debug)]
pub(super) struct Current {
    pub(super) token: u16,
    pub(super) sent: Moment,
    /// Until when its ballots may be executed, by the client's clock.
    pub(super) bound: u64,
    /// The highest fences of bodies that had begun when its ballots were sent.
    pub(super) above: Highest,
    pub(super) election: Election,
    /// As whom each node was asked.
    pub(super) processes: Vec<ServerProcess>,
    pub(super) phase: Phase,
}

#[derive(Clone, Debug)]
pub(super) enum Phase {
    Voting { waits_briefly: bool },
    Holding(Hold),
}

#[derive(Clone, Debug)]
pub(super) struct Hold {
    pub(super) lease: Lease,
    pub(super) fence: Fence,
    /// A body runs; otherwise the lock was handed on, and its next holder has not come for it yet.
    pub(super) has_body: bool,
    /// How many rounds of renewal were sent.
    pub(super) rounds: u8,
    pub(super) round: Option<Round>,
    /// Where it may be; `None` in runs in which no renewal asks for votes.
    pub(super) footprint: Option<Footprint>,
    /// It asked to become a reader, and counts as one.
    pub(super) reads: bool,
    /// Most nodes have said that it is one.
    pub(super) is_downgraded: bool,
    pub(super) downgrade: Option<Round>,
    pub(super) queue: Option<LocalQueue<u16>>,
}

/// The last round of renewal, or of a downgrade, while it is undecided.
#[derive(Clone, Debug)]
pub(super) struct Round {
    pub(super) sent: Moment,
    pub(super) tally: Tally,
    /// Sent when the lock had been taken away at all nodes.
    pub(super) is_doomed: bool,
    /// What it counted, for the fingerprint.
    pub(super) counted: Vec<(NodeId, Option<bool>)>,
}

/// A token that is over, and the nodes where something of it may be, or come to be.
#[derive(Clone, Debug)]
pub(super) struct Cancelling {
    pub(super) token: u16,
    pub(super) bound: u64,
    pub(super) open: NodeSet,
}

/// A command to a node, or its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) token: u16,
    pub(super) node: NodeId,
    /// To whom it was sent: a process that dies answers nothing any more.
    pub(super) process: ServerProcess,
    pub(super) what: What,
    pub(super) phase: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Ballot {
        proposal: u64,
        not_after: u64,
    },
    /// `counts_for`: the node whose number this replaces, if it is not the one that is asked.
    Adopt {
        epoch: u64,
        counts_for: Option<NodeId>,
    },
    Renew {
        round: u8,
        /// The node's time when it was asked, where that counts.
        asked: u64,
    },
    /// A vote that a round of renewal asks for.
    Reseed {
        round: u8,
        epoch: u64,
        reads: bool,
        not_after: u64,
    },
    /// For the rest of the lease.
    Downgrade {
        ticks: u32,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// On its way to the node.
    Out,
    /// On its way back.
    Back(Answer),
    /// The connection is gone.
    Cut,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Answer {
    Vote(Vote),
    Adopted(Adopted),
    /// To a renewal or a downgrade.
    Ours(bool),
}

impl Current {
    /// The nodes where something of it may be, or come to be.
    pub(super) fn open(&self) -> NodeSet {
        match &self.phase {
            Phase::Holding(Hold {
                footprint: Some(it),
                ..
            }) => it.nodes(),
            _ => self.election.open(),
        }
    }
}

impl Client {
    pub(super) fn new(at: usize, world: &World) -> Self {
        let now = world.now();
        let offsets = world.ids().map(|node| {
            let mut offset = Offset::new(WINDOW, now);
            offset.heard(world.time(node), now); // the connection's handshake
            offset
        });
        Self {
            at,
            is_alive: true,
            drawn: 0,
            seen_epoch: 0,
            offsets: offsets.collect(),
            current: None,
            cancelled: Vec::new(),
            messages: Vec::new(),
        }
    }

    pub(super) fn hold(&self) -> Option<&Hold> {
        match &self.current.as_ref()?.phase {
            Phase::Holding(hold) => Some(hold),
            Phase::Voting { .. } => None,
        }
    }

    pub(super) fn hold_mut(&mut self) -> Option<&mut Hold> {
        match &mut self.current.as_mut()?.phase {
            Phase::Holding(hold) => Some(hold),
            Phase::Voting { .. } => None,
        }
    }

    /// Whether it runs a body and counts on the lock.
    pub(super) fn believes(&self, now: Moment) -> bool {
        let believes = |hold: &Hold| hold.has_body && now < hold.lease.deadline();
        self.is_alive && self.hold().is_some_and(believes)
    }

    /// Whether the token's key at a node is in use, or will be cancelled there.
    pub(super) fn answers_for(&self, token: u16, node: NodeId) -> bool {
        let current = self.current.as_ref();
        let uses = current.is_some_and(|it| it.token == token && it.open().contains(node));
        uses || self
            .cancelled
            .iter()
            .any(|it| it.token == token && it.open.contains(node))
    }

    /// Whether it still wants the answer to this message.
    pub(super) fn awaits(&self, message: &Message) -> bool {
        let Some(current) = &self.current else {
            return false;
        };
        let is_awaited = match (&current.phase, &message.what) {
            (Phase::Voting { .. }, What::Ballot { .. } | What::Adopt { .. })
            | (Phase::Holding(_), What::Reseed { .. }) => true,
            (Phase::Holding(hold), What::Renew { round, .. }) => {
                (hold.round.is_some() || hold.footprint.is_some()) && hold.rounds == *round
            }
            (Phase::Holding(hold), What::Downgrade { .. }) => hold.downgrade.is_some(),
            _ => false,
        };
        self.is_alive && message.token == current.token && is_awaited
    }

    /// Drops the answers that nobody reads.
    pub(super) fn forget_answers(&mut self) {
        let mut messages = std::mem::take(&mut self.messages);
        messages.retain(|it| it.phase == Way::Out || self.awaits(it));
        self.messages = messages;
    }

    /// What it knows of one node, and has there.
    pub(super) fn hash_at(&self, node: NodeId, print: &mut Print) {
        if self.is_alive {
            self.offsets[node.index()].hash(print);
        }
        if let Some(current) = &self.current {
            match &current.phase {
                Phase::Voting { .. } => {
                    current.election.known_of(node).hash(print);
                    current.processes[node.index()].hash(print);
                }
                Phase::Holding(hold) => {
                    current.open().contains(node).hash(print);
                    hold.footprint.map(|it| it.known_of(node)).hash(print);
                    for round in [&hold.round, &hold.downgrade] {
                        let counted = round.iter().flat_map(|round| &round.counted);
                        let counted = counted.filter(|(at, _)| *at == node);
                        counted.for_each(|(_, answer)| (true, answer).hash(print));
                        false.hash(print);
                    }
                }
            }
        }
        for it in &self.cancelled {
            (it.token, it.open.contains(node)).hash(print);
        }
        for message in self.messages.iter().filter(|it| it.node == node) {
            let mut each = Print::default();
            (message.token, &message.what, &message.phase).hash(&mut each);
            message.process.hash(&mut each);
            print.add(&each);
        }
    }

    pub(super) fn hash_apart_from_nodes(&self, print: &mut Print) {
        (self.is_alive, self.drawn, self.seen_epoch).hash(print);
        for it in &self.cancelled {
            (it.token, it.bound).hash(print);
        }
        print.write_usize(self.cancelled.len());
        let Some(current) = &self.current else {
            return;
        };
        (current.token, current.bound).hash(print);
        match &current.phase {
            Phase::Voting { waits_briefly } => {
                (waits_briefly, current.above, current.sent).hash(print);
                current.election.progress().hash(print);
            }
            Phase::Holding(hold) => {
                (&hold.lease, hold.fence, hold.has_body, hold.rounds).hash(print);
                hold.queue.hash(print);
                let round = hold.round.as_ref();
                round.map(|it| (it.sent, it.is_doomed)).hash(print);
                hold.footprint.map(|it| it.votes_until()).hash(print);
                (hold.reads, hold.is_downgraded, hold.downgrade.is_some()).hash(print);
            }
        }
    }

    pub(super) fn describe(&self, now: Moment) -> String {
        let mut told = format!("{}: ", self.at);
        match &self.current {
            _ if !self.is_alive => told.push_str("crashed"),
            None => told.push_str("idle"),
            Some(Current { token, phase, .. }) => match phase {
                Phase::Voting { .. } => {
                    let _ = write!(told, "votes for {}.{token}", self.at);
                }
                Phase::Holding(hold) => {
                    let left = now.until(hold.lease.deadline()).as_secs_f32();
                    let body = match (hold.has_body, hold.reads) {
                        (true, false) => "body of",
                        (true, true) => "reading body of",
                        (false, _) => "between",
                    };
                    let _ = write!(
                        told,
                        "{body} {}.{token} {:?} for {left:.1}",
                        self.at, hold.fence
                    );
                }
            },
        }
        for it in &self.cancelled {
            let at: String = it.open.iter().map(name).collect();
            let _ = write!(told, ", cancels {} at {at}", it.token);
        }
        told
    }
}
