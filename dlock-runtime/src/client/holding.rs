//! The end of a hold: the lock goes to the next waiter of this process, or back to the server.
//!
//! The local queue and the token table change in the same step; sending the release and notifying
//! the next waiter is the caller's part.

use super::Client;
use crate::client::local_queue::Grant;
use crate::client::tokens::ReleaseBy;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Where a lock goes when its holder gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnedTo {
    /// The next waiter of this process has it; the caller must notify that waiter.
    HandedOn,
    /// The server; [`ReleaseBy`] says who sends the release.
    ToServer(ReleaseBy),
}

impl<W, H: Clone> Client<'_, W, H> {
    /// The holder is done. `fits` says whether a waiter can use this grant; `None` means that the
    /// lock must not be handed on. `ended` runs when the holder's part of the lease is over.
    pub(crate) fn give_back(
        &mut self,
        token: Token,
        now: Moment,
        fits: Option<impl Fn(&W, &Grant) -> bool>,
        ended: impl FnOnce(),
    ) -> ReturnedTo {
        if self.hand_on(token, now, fits, ended) {
            ReturnedTo::HandedOn
        } else {
            ReturnedTo::ToServer(self.tokens.release(token, now))
        }
    }

    /// As [`give_back`](Self::give_back), but the table cleans up a lock that is not handed on, for
    /// its caller sends no release. Returns whether it was handed on.
    pub(crate) fn drop_hold(
        &mut self,
        token: Token,
        now: Moment,
        fits: Option<impl Fn(&W, &Grant) -> bool>,
        ended: impl FnOnce(),
    ) -> bool {
        let handed_on = self.hand_on(token, now, fits, ended);
        if !handed_on {
            self.tokens.hand_over(token, now);
        }
        handed_on
    }

    fn hand_on(
        &mut self,
        token: Token,
        now: Moment,
        fits: Option<impl Fn(&W, &Grant) -> bool>,
        ended: impl FnOnce(),
    ) -> bool {
        let Some(queue) = &mut self.queue else {
            return false;
        };
        if let Some(fits) = fits
            && queue.can_hand_on(token, now, &fits)
            && self.tokens.hand_on(token, now)
        {
            ended();
            return queue.hand_on(token, now, fits);
        }
        queue.left(token, now);
        false
    }
}
