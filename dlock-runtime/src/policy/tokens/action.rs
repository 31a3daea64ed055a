//! What the token table wants done, and what it tells of itself.

use std::time::Duration;

use crate::policy::commands::{Claim, GivenBack, Renewal};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// What the host of the table has to do; `H` stands for a holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action<H> {
    /// Send `renew` and report with [`renewed`](super::Tokens::renewed).
    Renew {
        token: Token,
        renewal: Renewal,
        /// How long it may take, so that a second one can still come in time.
        within: Duration,
    },
    /// Send `cancel` and report with [`cancelled`](super::Tokens::cancelled) or
    /// [`cancel_failed`](super::Tokens::cancel_failed).
    Cancel {
        token: Token,
        claim: Claim,
        keep_until: u64,
        not_after: u64,
    },
    /// Tell the holder, and whoever waits for the news.
    Lost {
        holder: H,
        claim: Claim,
        cause: LostCause,
    },
    /// Tell the holder that it may go on until then.
    Extended {
        token: Token,
        holder: H,
        deadline: Moment,
        /// Why it is over then, unless it is extended again.
        cause: LostCause,
    },
    /// A clean-up is done; `found`: whether there was anything, `None` when it was given up.
    CleanedUp {
        holder: Option<H>,
        claim: Claim,
        found: Option<GivenBack>,
    },
}

/// How a release is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseBy {
    /// Send it, and report; before this server time (0: none) the key stays.
    Caller { keep_until: u64 },
    /// A renewal is on its way; the host sends the release behind it, and tells the holder.
    Host,
    /// There is nothing to release any more.
    Nobody,
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
