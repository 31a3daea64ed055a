//! What the token table asks of its host, and its statistics. Data only: the host carries it out.

use std::time::Duration;

use crate::rules::commands::{Claim, GivenBack, Keep, Renewal};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// What the host of the table must do; `H` stands for a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action<H> {
    /// Send `renew` and report with [`renewed`](super::Tokens::renewed).
    Renew {
        token: Token,
        renewal: Renewal,
        /// How long it may take, so that a second one can still come in time.
        within: Duration,
    },
    /// Send `holds` and report with [`verified`](super::Tokens::verified).
    Verify {
        token: Token,
        claim: Claim,
        /// How long the lease lasts.
        within: Duration,
    },
    /// Send `cancel` and report with [`cancelled`](super::Tokens::cancelled) or
    /// [`cancel_failed`](super::Tokens::cancel_failed).
    Cancel {
        token: Token,
        claim: Claim,
        keep: Keep,
        not_after: u64,
    },
    /// Tell the holder, and the tasks that wait for the loss.
    Lost {
        holder: H,
        claim: Claim,
        cause: LostCause,
    },
    /// Tell the holder that its lease now lasts until `deadline`.
    Extended {
        token: Token,
        holder: H,
        deadline: Moment,
        /// Why the lease is over then, unless it is extended again.
        cause: LostCause,
    },
    /// A clean-up is done. `found`: whether anything was left; `None`: the clean-up was given up.
    CleanedUp {
        holder: Option<H>,
        claim: Claim,
        found: Option<GivenBack>,
        /// Its run succeeded, and may not be recorded.
        is_unrecorded: bool,
    },
}

/// Who sends a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseBy {
    /// The caller sends it and reports.
    Caller { keep: Keep },
    /// A renewal is under way; the host sends the release after it, and tells the holder.
    Host,
    /// Nothing is left to release.
    Nobody,
}

/// What became of a lease that its holder has extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    /// It lasts until then; what ends it then.
    Until(Moment, LostCause),
    /// It was over before the answer came.
    Over,
    NotOurs,
    /// Of several nodes, too few have it.
    AtTooFew,
    /// The server could not look at the key.
    Failed,
}

/// What a token's value at the server means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its holder has the lock.
    Holds,
    /// Nobody holds by it: an attempt whose end is not known, or what is left of one or of a hold.
    Open,
    /// Nothing of it is left.
    Over,
}

/// How many tokens are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Census {
    pub(crate) acquiring: usize,
    pub(crate) waiting: usize,
    pub(crate) held: usize,
    pub(crate) releasing: usize,
    pub(crate) cleaning_up: usize,
}
