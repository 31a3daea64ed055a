//! The end of a hold: the lock goes to the next waiter of this process, or back to the server.
//!
//! The local queue and the token table change in the same step; sending the release is the caller's
//! part, or the watchdog's.

use super::host::ClientHost;
use super::queue_key::QueueKey;
use super::queue_state::suits;
use super::tokens::ReleaseBy;
use super::{Client, QueueStep, Told};
use crate::values::token::Token;

/// Where a lock goes when its holder gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReturnedTo {
    /// The next waiter of this process has it.
    HandedOn,
    /// The server; [`ReleaseBy`] says who sends the release.
    ToServer(ReleaseBy),
}

impl<H: ClientHost> Client<H> {
    /// The holder is done. `ended` runs when the holder's part of the lease is over and the lock is
    /// handed on.
    pub(crate) fn give_back(
        &mut self,
        (queue_key, token): (&QueueKey, Token),
        may_hand_on: bool,
        told: Told<'_, H>,
        ended: impl FnOnce(),
    ) -> ReturnedTo {
        let now = told.0;
        if self.hand_on((queue_key, token), may_hand_on, told, ended) {
            ReturnedTo::HandedOn
        } else {
            ReturnedTo::ToServer(self.tokens.release(token, now))
        }
    }

    /// As [`give_back`](Self::give_back), but the table cleans up a lock that is not handed on, for
    /// its caller sends no release. Returns whether it was handed on.
    pub(crate) fn drop_hold(
        &mut self,
        (queue_key, token): (&QueueKey, Token),
        may_hand_on: bool,
        told: Told<'_, H>,
        ended: impl FnOnce(),
    ) -> bool {
        let (now, out) = told;
        let handed_on = self.hand_on((queue_key, token), may_hand_on, (now, out), ended);
        if !handed_on {
            self.tokens.leave_to_clean_up(token, now);
            out.clean_up(token);
        }
        handed_on
    }

    fn hand_on(
        &mut self,
        (queue_key, token): (&QueueKey, Token),
        may_hand_on: bool,
        (now, out): Told<'_, H>,
        ended: impl FnOnce(),
    ) -> bool {
        let told = (now, &mut *out);
        let handed_on = self.at(queue_key, told, |it| it.hand_on(token, may_hand_on, ended));
        if !handed_on && !queue_key.is_for_all() {
            // A node tells a process once, and of its waiters only some ask again, so the next ones
            // of a kind that can't be handed on hear here that the lock is about to be released.
            self.freed(queue_key.key(), (now, out));
        }
        handed_on
    }
}

impl<H: ClientHost> QueueStep<'_, H> {
    fn hand_on(&mut self, token: Token, may_hand_on: bool, ended: impl FnOnce()) -> bool {
        let (queue, now) = (&mut self.state.queue, self.step.now);
        if may_hand_on
            && queue.can_hand_on(token, now, suits::<H>(now))
            && self.step.tokens.hand_on(token, now)
        {
            ended();
            let handed_on = queue.hand_on(token, now, suits::<H>(now));
            self.state.wake_called(self.step.out);
            return handed_on;
        }
        queue.left(token, now);
        // The lock goes back to the server, perhaps before the leader would ask.
        if queue.has_waiters() {
            self.state.wake_leader(self.step.out);
        }
        false
    }
}
