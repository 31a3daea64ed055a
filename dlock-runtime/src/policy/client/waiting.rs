//! Those who wait: what one finds when it looks, and what is left of one that goes.

use super::Client;
use crate::policy::lease::{Lease, Terms};
use crate::policy::local_queue::{Attempt, Fifo, Grant, Look, Next, WaiterId};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// What a waiter finds.
#[derive(Debug)]
pub(crate) enum Looked<H> {
    /// It is not this one's turn.
    Wait,
    /// It holds the lock, and has left the queue.
    Yours(Attempt, Grant, H),
    /// It was this one's turn, but the lease was over, or would be: the token is being cleaned up after. `left`: by its own
    /// ttl only, so that it has left the queue and may come again behind the others.
    TooLate { unowned: Token, left: bool },
}

impl<W, H: Clone> Client<'_, W, H> {
    /// A waiter looks whether the lock is its own by now. `holder`: what its lease is told through.
    pub(crate) fn look(
        &mut self,
        waiter_id: WaiterId,
        now: Moment,
        terms: &Terms,
        holder: impl FnOnce(&Attempt, &Lease) -> H,
    ) -> Looked<H> {
        let Some(queue) = &mut self.queue else {
            return Looked::Wait;
        };
        match queue.look(waiter_id, now) {
            Look::Wait => Looked::Wait,
            Look::Stale(attempt) => Looked::TooLate {
                unowned: self.clean_up(&attempt, now),
                left: false,
            },
            Look::Yours(attempt, grant) => {
                let holder = |lease: &Lease| holder(&attempt, lease);
                match self.take(&attempt, &grant, terms, now, holder) {
                    Some(holder) => Looked::Yours(attempt, grant, holder),
                    None => Looked::TooLate {
                        unowned: attempt.token,
                        left: true,
                    },
                }
            }
        }
    }

    /// Somebody stops waiting; the token that nobody is left for.
    pub(crate) fn leave(&mut self, waiter_id: WaiterId, now: Moment) -> Option<Token> {
        let unwanted = self.queue.as_mut()?.leave(waiter_id)?;
        Some(self.clean_up(&unwanted, now))
    }

    /// Everybody is sent away.
    pub(crate) fn clear(&mut self, now: Moment) -> (Fifo<W>, Option<Token>) {
        let Some(queue) = &mut self.queue else {
            return (Fifo::default(), None);
        };
        let (fifo, unwanted) = queue.clear();
        (fifo, unwanted.map(|it| self.clean_up(&it, now)))
    }

    /// What has to be sent now. [`Next::GiveUp`]: its token is being cleaned up after.
    pub(crate) fn next(&mut self, now: Moment) -> Next {
        let Some(queue) = &mut self.queue else {
            return Next::Rest;
        };
        let next = queue.next(now);
        if let Next::GiveUp(attempt) = &next {
            self.clean_up(attempt, now);
        }
        next
    }

    /// Somebody else sends from here on, for who did so shows no sign of life; its acquire is cleaned up after.
    pub(crate) fn take_over(&mut self, now: Moment) -> Option<Token> {
        let unanswered = self.queue.as_mut()?.take_over_lead()?;
        Some(self.clean_up(&unanswered, now))
    }
}
