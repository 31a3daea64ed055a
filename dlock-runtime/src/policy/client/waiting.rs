//! Those who wait: what one finds when it looks, and what is left of one that goes.

use super::Client;
use crate::policy::gate::{Line, Look, Next, Offer, Position, Seat};
use crate::policy::lease::{Lease, Terms};
use crate::values::moment::Moment;
use crate::values::token::Token;

/// What a waiter finds.
#[derive(Debug)]
pub(crate) enum Looked<H> {
    /// It is not this one's turn.
    Wait,
    /// It holds the lock, and has left the queue.
    Yours(Position, Offer, H),
    /// It was this one's turn, but the lease was over, or would be: the token is being cleaned up after. `left`: by its own
    /// ttl only, so that it has left the queue and may come again behind the others.
    TooLate { unowned: Token, left: bool },
}

impl<W, H: Clone> Client<'_, W, H> {
    /// A waiter looks whether the lock is its own by now. `holder`: what its lease is told through.
    pub(crate) fn look(
        &mut self,
        seat: Seat,
        now: Moment,
        terms: &Terms,
        holder: impl FnOnce(&Position, &Lease) -> H,
    ) -> Looked<H> {
        let Some(queue) = &mut self.queue else {
            return Looked::Wait;
        };
        match queue.look(seat, now) {
            Look::Wait => Looked::Wait,
            Look::Stale(position) => Looked::TooLate {
                unowned: self.clean_up(&position, now),
                left: false,
            },
            Look::Yours(position, offer) => {
                let holder = |lease: &Lease| holder(&position, lease);
                match self.take(&position, &offer, terms, now, holder) {
                    Some(holder) => Looked::Yours(position, offer, holder),
                    None => Looked::TooLate {
                        unowned: position.token,
                        left: true,
                    },
                }
            }
        }
    }

    /// Somebody stops waiting; the token that nobody is left for.
    pub(crate) fn leave(&mut self, seat: Seat, now: Moment) -> Option<Token> {
        let unwanted = self.queue.as_mut()?.leave(seat)?;
        Some(self.clean_up(&unwanted, now))
    }

    /// Everybody is sent away.
    pub(crate) fn clear(&mut self, now: Moment) -> (Line<W>, Option<Token>) {
        let Some(queue) = &mut self.queue else {
            return (Line::default(), None);
        };
        let (line, unwanted) = queue.clear();
        (line, unwanted.map(|it| self.clean_up(&it, now)))
    }

    /// What has to be sent now. [`Next::GiveUp`]: its token is being cleaned up after.
    pub(crate) fn next(&mut self, now: Moment) -> Next {
        let Some(queue) = &mut self.queue else {
            return Next::Rest;
        };
        let next = queue.next(now);
        if let Next::GiveUp(position) = &next {
            self.clean_up(position, now);
        }
        next
    }

    /// Somebody else sends from here on, for who did so shows no sign of life; its acquire is cleaned up after.
    pub(crate) fn take_over(&mut self, now: Moment) -> Option<Token> {
        let unanswered = self.queue.as_mut()?.seize_wheel()?;
        Some(self.clean_up(&unanswered, now))
    }
}
