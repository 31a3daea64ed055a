//! What a client asks of one node of a quorum, and what the node answers.
//!
//! This file is data only; `rules::voting` has the semantics. Times are the *node's*, in
//! microseconds since 1970. Release and cancel are one command: a node is always told until it says
//! that nothing is left.

use std::sync::Arc;
use std::time::Duration;

use crate::rules::commands::{Busy, Claim};
use crate::values::ttl::Ttl;

/// `vote`: the only command that creates, sent once to each node for each claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ballot {
    pub(crate) claim: Claim,
    pub(crate) lease: Ttl,
    /// The node creates nothing after this time of its own.
    pub(crate) not_after: u64,
    /// The epoch that the client proposes; the node draws no lower one.
    pub(crate) proposal: u64,
    /// Where to send a hint when the lock is free, if it is not now; empty: nowhere.
    pub(crate) hint_to: Arc<str>,
}

/// The answer to a [`Ballot`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Vote {
    /// The claim holds the lock there, with this epoch: the node drew it or, for an owner that
    /// holds the lock already, drew it for that hold.
    Granted { time: u64, epoch: u64 },
    /// Another claim has the node's key.
    Busy(Outvoted),
    /// Executed after its `not_after`: nothing was created.
    Late { time: u64 },
    /// The lock is held as another kind, and the claim does not wait.
    WrongKind { time: u64, there: String },
}

/// Why a node gave its vote to somebody else.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Outvoted {
    pub(crate) busy: Busy,
    /// The node's last epoch: the next proposal has to be above it.
    pub(crate) last_epoch: u64,
    /// How many others are to be given a hint before us.
    pub(crate) rank: u32,
}

/// The answer to `adopt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Adopted {
    /// The claim holds the lock there, and the node will draw only epochs above this one.
    Yes,
    /// The claim does not hold the lock there.
    Gone,
}

impl Ballot {
    /// Whether the caller asks again if the lock is taken, whatever its kind.
    pub(crate) fn waits(&self) -> bool {
        self.claim.queues || !self.hint_to.is_empty()
    }
}

impl Vote {
    /// The vote, if its epoch can have been drawn: if it is not above this one. What a busy node
    /// tells beyond it is left out.
    pub(crate) fn believed_up_to(mut self, highest: u64) -> Option<Self> {
        match &mut self {
            Vote::Granted { epoch, .. } if *epoch > highest => return None,
            Vote::Busy(it) if it.last_epoch > highest => it.last_epoch = 0,
            Vote::Granted { .. } | Vote::Busy(_) | Vote::Late { .. } | Vote::WrongKind { .. } => {}
        }
        Some(self)
    }

    /// The node's time when it answered.
    #[cfg(test)]
    pub(crate) fn time(&self) -> u64 {
        match self {
            Vote::Granted { time, .. }
            | Vote::Busy(Outvoted {
                busy: Busy { time, .. },
                ..
            })
            | Vote::Late { time }
            | Vote::WrongKind { time, .. } => *time,
        }
    }
}

/// A node keeps the addresses that want a hint for this long after the last of them asked.
pub(crate) const HINTS_TTL: Duration = Duration::from_secs(7);

/// For how long a writer that waits keeps new readers out of a node, after it last asked. Longer than
/// it pauses between two attempts.
pub(crate) const WRITER_WAITS: Duration = Duration::from_millis(2500);

/// For how long it does so at most after it was told that the lock is free.
pub(crate) const WRITER_COMES: Duration = Duration::from_millis(500);

/// The most addresses that one command of a node tries, so that it never blocks the node for long.
pub(crate) const HINTS_AT_ONCE: usize = 3;
