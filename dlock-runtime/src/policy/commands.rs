//! What a lock server is asked and what it answers, whatever the server is.
//!
//! Times with the name `time` or `not_after` are the *server's*, in microseconds since 1970.

use std::sync::Arc;
use std::time::Duration;

use crate::values::ttl::Ttl;

/// One attempt at one key: `value` is unique to the attempt, for its token is in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claim {
    pub(crate) key: Arc<str>,
    pub(crate) value: Arc<str>,
}

/// `acquire`: the only command that creates, sent once for each claim.
#[derive(Clone, Debug)]
pub(crate) struct Acquire {
    pub(crate) claim: Claim,
    /// The key of the counter that epochs are drawn from.
    pub(crate) fences: Arc<str>,
    pub(crate) ttl: Ttl,
    /// Executed later than this, it creates nothing.
    pub(crate) not_after: u64,
    /// What to give a key that has no time to live; `None` leaves it alone.
    pub(crate) repair_missing_ttl: Option<Duration>,
}

/// The answer to an [`Acquire`]. A server with a queue will answer `Queued` as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acquired {
    /// The lock is ours, for the whole ttl.
    Granted { time: u64, epoch: u64 },
    /// Somebody else's.
    Busy {
        time: u64,
        left: Left,
        value: String,
    },
    /// It was ours already: the command was duplicated on its way.
    Yours {
        time: u64,
        epoch: u64,
        left: Duration,
    },
    /// Executed after its `not_after`: nothing was created.
    Late { time: u64 },
}

impl Acquired {
    /// The server's time when it answered.
    pub(crate) fn time(&self) -> u64 {
        match self {
            Acquired::Granted { time, .. }
            | Acquired::Busy { time, .. }
            | Acquired::Yours { time, .. }
            | Acquired::Late { time } => *time,
        }
    }
}

/// How long the lease of somebody else has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    For(Duration),
    /// The key has no time to live.
    Endless,
}

/// The answer to `cancel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cancelled {
    pub(crate) time: u64,
    /// The claim held the lock, and no longer does.
    pub(crate) found: bool,
    /// Nothing of this claim is left, nor can appear later.
    pub(crate) conclusive: bool,
}

/// One item of `renew`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    pub(crate) claim: Claim,
    pub(crate) ttl: Ttl,
}

/// The answer to one [`Renewal`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewed {
    /// The lease now lasts at least the ttl.
    Yes,
    /// The lock is not ours: never again for this claim.
    NotOurs,
    /// This one could not be looked at; the others of its batch were.
    Failed,
}
