//! The end of a hold: to the next waiter of this process, or back to the server.

use super::Client;
use crate::policy::local_queue::Grant;
use crate::policy::tokens::ReleaseBy;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// What becomes of a lock that its holder gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GivenBack {
    /// The next waiter of this process has it, and has to be told.
    HandedOn,
    /// It goes back to the server.
    ToServer(ReleaseBy),
}

impl<W, H: Clone> Client<'_, W, H> {
    /// The holder is done. `fits`: whether a waiter could begin with what was granted; `None`: it is not handed on.
    /// `ended`: the holder's part in the lease is over.
    pub(crate) fn give_back(
        &mut self,
        token: Token,
        now: Moment,
        fits: Option<impl Fn(&W, &Grant) -> bool>,
        ended: impl FnOnce(),
    ) -> GivenBack {
        if self.hand_on(token, now, fits, ended) {
            GivenBack::HandedOn
        } else {
            GivenBack::ToServer(self.tokens.release(token, now))
        }
    }

    /// The same where nobody is left who would release it; whether it was handed on.
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
