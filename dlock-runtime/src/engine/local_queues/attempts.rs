//! Attempts at the local queues: an acquire that goes out, and what the server says of it, in an answer or unasked.

use std::sync::Arc;

use super::keyed::Wheel;
use super::lane::Lane;
use super::{Gates, Taken};
use crate::policy::client::Settled;
use crate::policy::gate::{Offer, Position};
use crate::policy::lease::Terms;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Attempts, as those who send them see them.
impl Gates {
    /// An acquire goes out. `lane`: for this queue, and by this driver; `false`: it sends for it no more, and must not.
    pub(in crate::engine) fn sending(
        &self,
        lane: Option<(&Lane, Wheel)>,
        position: Position,
        now: Moment,
    ) -> bool {
        let Some((lane, wheel)) = lane else {
            let Position { token, claim } = position;
            self.lock().tokens.acquiring(token, claim);
            return true;
        };
        let mut state = self.lock();
        let value = position.claim.value.clone();
        let sends =
            (self.locked(&mut state, lane)).is_some_and(|mut it| it.sending(wheel, position, now));
        if sends {
            state.queues.sent(lane, &value);
        }
        sends
    }

    /// The server has nothing of the token. `lane`: of the queue that it was sent for.
    pub(in crate::engine) fn nothing_there(&self, lane: Option<&Lane>, token: Token, now: Moment) {
        match lane {
            None => self.lock().tokens.not_granted(token),
            Some(lane) => self
                .at(lane, |it| it.client().nothing_there(token, now))
                .unwrap_or_default(),
        }
        self.shared.fewer.notify_waiters();
    }

    /// As [`Client::abandoned`].
    pub(in crate::engine) fn abandoned(
        &self,
        lane: Option<&Lane>,
        token: Token,
        (not_after, give_up): (u64, Moment),
        cancelled_by: Option<Moment>,
        now: Moment,
    ) -> bool {
        let Some(lane) = lane else {
            let tokens = &mut self.lock().tokens;
            tokens.abandoned(token, not_after, give_up, cancelled_by, now);
            return true;
        };
        let abandoned = self.at(lane, |it| {
            (it.client()).abandoned(token, not_after, give_up, cancelled_by, now)
        });
        abandoned.unwrap_or(false)
    }

    /// Takes a lock that was granted outside any queue; `None`: it would be over, and the token is being cleaned up after.
    pub(in crate::engine) fn take(
        &self,
        terms: &Terms,
        position: Position,
        offer: Offer,
        now: Moment,
    ) -> Option<Taken> {
        let mut state = self.lock();
        let holder = |lease: &_| self.cell(&position, lease);
        let cell = self
            .alone(&mut state)
            .take(&position, &offer, terms, now, holder);
        let begun = (cell.is_some()).then(|| self.shared.begins(&mut state, position.token));
        drop(state);
        if let Some(begun) = begun {
            self.shared.begun(begun);
        }
        cell.map(|cell| Taken {
            position,
            offer,
            cell,
        })
    }
}

/// What the server says to a driver, or unasked.
impl Gates {
    /// The lock is ours; an answer says so.
    pub(in crate::engine) fn offered(
        &self,
        lane: &Lane,
        token: Token,
        offer: Offer,
        now: Moment,
    ) -> Settled {
        let offer = self.to_be_handed_on(offer, now);
        let settled = self.at(lane, |it| it.granted(token, offer, now));
        settled.unwrap_or(Settled::NotOurs)
    }

    /// A place was granted. `offer` is `None` where it can't be told since when: then it has to be asked.
    pub(in crate::engine) fn granted(
        &self,
        key: &Arc<str>,
        value: &str,
        offer: Option<Offer>,
        now: Moment,
    ) -> Settled {
        let lane = self.lock().queues.awaits(key, value);
        let settled = lane.and_then(|lane| {
            self.at(&lane, |it| {
                let Some(token) = it.keyed.gate.awaits(value) else {
                    return Settled::NotOurs;
                };
                let Some(offer) = offer else {
                    it.keyed.hint(now);
                    return Settled::Taken;
                };
                it.granted(token, self.to_be_handed_on(offer, now), now)
            })
        });
        settled.unwrap_or(Settled::NotOurs)
    }

    /// A place may have been granted: its driver asks, but not for each such word.
    pub(in crate::engine) fn hinted(&self, key: &Arc<str>, value: &str, now: Moment) {
        let lane = self.lock().queues.awaits(key, value);
        if let Some(lane) = lane {
            self.at(&lane, |it| {
                if it.keyed.gate.awaits(value).is_some() {
                    it.keyed.hint(now);
                }
            });
        }
    }

    /// Something may have been missed: every driver asks.
    pub(in crate::engine) fn hurry_all(&self, now: Moment) {
        for lane in self.lanes() {
            self.at(&lane, |it| it.keyed.hurry(now));
        }
    }
}
