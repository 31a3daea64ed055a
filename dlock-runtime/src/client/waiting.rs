//! The waiting half of [`Client`]: a waiter checks for its grant, leaves, or is rejected.
//!
//! A token that no waiter is left for is cleaned up in the same step.

use super::Client;
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::local_queue::{Attempt, Check, Fifo, Grant, LeaderStep, WaiterId};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// The result of a waiter's check.
#[derive(Debug)]
pub(crate) enum Checked<H> {
    /// It is not this waiter's turn.
    Wait,
    /// The waiter holds the lock, and has left the queue.
    Yours(Grant, H),
    /// It was this waiter's turn, but the lease was over or would be: the token is being cleaned
    /// up. `left`: it was over by the waiter's own ttl only, so the waiter has left the queue and
    /// may enter it again, behind the others.
    TooLate { unowned: Token, left: bool },
}

impl<W, H: Clone> Client<'_, W, H> {
    /// Takes the lock, if it is granted and this waiter's turn. `holder` makes the handle through
    /// which the holder learns about its lease.
    pub(crate) fn check(
        &mut self,
        waiter_id: WaiterId,
        now: Moment,
        terms: &LeaseTerms,
        holder: impl FnOnce(Attempt, &Lease) -> H,
    ) -> Checked<H> {
        let Some(queue) = &mut self.queue else {
            return Checked::Wait;
        };
        match queue.check(waiter_id, now) {
            Check::Wait => Checked::Wait,
            Check::Stale(attempt) => Checked::TooLate {
                unowned: self.clean_up(&attempt, now),
                left: false,
            },
            Check::Yours(attempt, grant) => {
                let token = attempt.token;
                match self.take(attempt, &grant, terms, now, holder) {
                    Some(holder) => Checked::Yours(grant, holder),
                    None => Checked::TooLate {
                        unowned: token,
                        left: true,
                    },
                }
            }
        }
    }

    /// A waiter stops waiting. Returns the token that no waiter is left for, which is being cleaned
    /// up.
    pub(crate) fn leave(&mut self, waiter_id: WaiterId, now: Moment) -> Option<Token> {
        let unwanted = self.queue.as_mut()?.leave(waiter_id)?;
        Some(self.clean_up(&unwanted, now))
    }

    /// Rejects all waiters.
    pub(crate) fn clear(&mut self, now: Moment) -> (Fifo<W>, Option<Token>) {
        let Some(queue) = &mut self.queue else {
            return (Fifo::default(), None);
        };
        let (fifo, unwanted) = queue.clear();
        (fifo, unwanted.map(|it| self.clean_up(&it, now)))
    }

    /// What has to be sent now. The token of [`LeaderStep::GiveUp`] is being cleaned up.
    pub(crate) fn next(&mut self, now: Moment) -> LeaderStep {
        let Some(queue) = &mut self.queue else {
            return LeaderStep::Rest;
        };
        let next = queue.next(now);
        if let LeaderStep::GiveUp(attempt) = &next {
            self.clean_up(attempt, now);
        }
        next
    }

    /// Takes the lead from a leader without a sign of life, and cleans up its unanswered acquire.
    pub(crate) fn take_over(&mut self, now: Moment) -> Option<Token> {
        let unanswered = self.queue.as_mut()?.take_over_lead()?;
        Some(self.clean_up(&unanswered, now))
    }
}
