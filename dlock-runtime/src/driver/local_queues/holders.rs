//! Holders at the local queues: a lock goes to the next waiter of this process, or back to the
//! server.
//!
//! It sends no release: the caller does, or the watchdog.

use super::LocalQueues;
use crate::client::ReturnedTo;
use crate::client::queue_key::QueueKey;
use crate::client::tokens::ReleaseBy;
use crate::driver::lease_cell::LeaseCell;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// What holders do.
impl LocalQueues {
    /// The holder is done. `may_hand_on`: the next waiter here may have the lock. After a
    /// [`ReturnedTo::ToServer`] that the watchdog has to carry out, the caller tells the watchdog
    /// about the token.
    pub(in crate::driver) fn give_back(
        &self,
        cell: &LeaseCell,
        now: Moment,
        may_hand_on: bool,
    ) -> ReturnedTo {
        let (queue_key, token) = (&cell.spec().queue_key, cell.token());
        // Under the mutex: the cell's task must not report the end of a lease that is the next
        // holder's by then.
        let ended = || cell.hand_on();
        let given_back = self.at(queue_key, |it| it.give_back(token, now, may_hand_on, ended));
        if given_back == Some(ReturnedTo::HandedOn) {
            cell.notify();
        }
        let given_back =
            given_back.unwrap_or_else(|| ReturnedTo::ToServer(self.release_alone(token, now)));
        if matches!(given_back, ReturnedTo::ToServer(_)) {
            self.tell_others_here(queue_key, now);
        }
        given_back
    }

    /// A node tells a process once, and of its waiters only some ask again, so the next ones of a
    /// kind that can't be handed on hear here that the lock is about to be released.
    fn tell_others_here(&self, queue_key: &QueueKey, now: Moment) {
        if !queue_key.is_for_all() {
            self.freed(queue_key.key(), now);
        }
    }

    fn release_alone(&self, token: Token, now: Moment) -> ReleaseBy {
        self.lock().tokens.release(token, now)
    }

    /// As `give_back`, for a hold without a guard; returns whether it was handed on.
    pub(in crate::driver) fn drop_hold(
        &self,
        cell: &LeaseCell,
        now: Moment,
        may_hand_on: bool,
    ) -> bool {
        let (queue_key, token) = (&cell.spec().queue_key, cell.token());
        let ended = || cell.hand_on();
        let handed_on = self.at(queue_key, |it| it.drop_hold(token, now, may_hand_on, ended));
        if handed_on == Some(true) {
            cell.notify();
        }
        let handed_on = handed_on.unwrap_or_else(|| {
            self.lock().tokens.hand_over(token, now);
            false
        });
        if !handed_on {
            self.tell_others_here(queue_key, now);
        }
        handed_on
    }
}
