//! The clean-up of a token that no caller owns any more: `cancel`, repeated until nothing of it can
//! be left.
//!
//! It counts time and failures; the table (`super`) moves the token and the host sends. Invariant:
//! no second cancel before the first one's report is due.

use std::time::Duration;

use crate::client::retry::{self, Jitter};
use crate::rules::commands::Cancelled;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// How long an acquire that is executed late may stand before the next `cancel` finds it, at most.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// A clean-up under way; `holder` is told when it is done.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CleanUp<H> {
    /// The holder that still wants the result.
    pub(super) holder: Option<H>,
    /// Server time until which the token's acquire may still create; 0: it was answered.
    pub(super) not_after: u64,
    /// Nothing of the token can be left after this.
    pub(super) give_up: Moment,
    /// A command for this token is under way; its report is awaited until then.
    busy: Option<Moment>,
    failures: u32,
    jitter: Jitter,
}

impl<H> CleanUp<H> {
    pub(super) fn new(token: Token, not_after: u64, give_up: Moment, holder: Option<H>) -> Self {
        let jitter = Jitter::seeded(token.scatter());
        Self {
            holder,
            not_after,
            give_up,
            busy: None,
            failures: 0,
            jitter,
        }
    }

    /// A command is under way, and is reported by then or never.
    pub(super) fn expect_report(&mut self, by: Moment) {
        self.busy = Some(by.min(self.give_up));
    }

    /// The command under way has been answered, or has failed.
    pub(super) fn reported(&mut self) {
        self.busy = None;
    }

    /// Until when there is nothing to send; `None` when a cancel is due.
    pub(super) fn waits_until(&self, now: Moment) -> Option<Moment> {
        self.busy.filter(|by| now < *by)
    }

    /// When to check it next.
    pub(super) fn next_check(&self, now: Moment) -> Moment {
        self.waits_until(now).unwrap_or(now)
    }

    /// The cancel came before the acquire's last moment and found nothing: when to repeat it. If
    /// that moment is far, before it too: the acquire may have been executed meanwhile.
    pub(super) fn inconclusive(&mut self, answer: Cancelled, now: Moment) -> Moment {
        self.reported();
        let open = Duration::from_micros(self.not_after.saturating_sub(answer.time));
        now.plus((open + Duration::from_millis(1)).min(LOOK_AGAIN))
    }

    /// The cancel got no clear answer: when to repeat it.
    pub(super) fn failed(&mut self, now: Moment) -> Moment {
        self.reported();
        self.failures += 1;
        now.plus(retry::after_failure(self.failures, &mut self.jitter))
    }
}
