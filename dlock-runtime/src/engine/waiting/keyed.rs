//! One gate with what its host needs: who drives it, who is to be woken, and who has been sent away.
//!
//! Everything here happens under the mutex of the gates; what is woken is written down, and woken later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;

use super::first_ask::FirstAsk;
use crate::engine::acquire::Order;
use crate::policy::gate::{Fate, Gate, Granted, Next, Offer, Position, Seat};
use crate::policy::queue;
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;

#[derive(Debug, Default)]
pub(super) struct Keyed {
    pub(super) gate: Gate<Waiter>,
    /// What those hear who were sent away, until they have heard it.
    pub(super) sent_away: BTreeMap<Seat, LockError>,
    /// Wakes the driver before its time; there is none before a driver sleeps for the first time.
    bell: Option<Arc<Notify>>,
    /// Which driver drives, and when it was last heard of.
    pub(super) driver: Wheel,
    driver_seen: Option<Moment>,
    /// The first acquire, while whoever is first sends it.
    pub(super) first_ask: Option<Arc<FirstAsk>>,
    /// The value of the last acquire, where the line is not for all: what `Keys` finds it by.
    pub(super) asked: Option<Arc<str>>,
    /// Who is to be woken when the mutex is open again: waking may drop a task, which looks in here.
    pub(super) wakes: Wakes,
    pub(super) rings: bool,
    /// Which gate this is, among those that came and went.
    #[cfg(test)]
    pub(super) itself: Arc<()>,
}

/// Nearly always nobody or one.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    one: Option<Waker>,
    more: Vec<Waker>,
}

impl Wakes {
    fn add(&mut self, waker: Option<Waker>) {
        match (&self.one, waker) {
            (None, waker) => self.one = waker,
            (Some(_), waker) => self.more.extend(waker),
        }
    }

    pub(super) fn wake(self) {
        self.one.into_iter().chain(self.more).for_each(Waker::wake);
    }
}

/// Somebody in line.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) order: Arc<Order>,
    pub(super) waker: Option<Waker>,
    /// It sends the first acquire itself.
    pub(super) asks: bool,
}

impl Waiter {
    pub(super) fn new(order: Arc<Order>) -> Self {
        Self {
            order,
            waker: None,
            asks: false,
        }
    }

    pub(super) fn listen_with(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker), // costs nothing if it is the same
            none => *none = Some(waker.clone()),
        }
    }

    /// With `min_hold`, it hands nothing on.
    pub(super) fn keeps_the_key(&self) -> bool {
        self.order.terms.bounds.min_hold.is_some()
    }

    /// Whether a lock that was granted to somebody else is as good to this one as a grant of its own: nine tenths
    /// of its ttl are left, and it lasts as long as this one asks for, or as a grant in turn lasts at first.
    fn could_begin_with(&self, offer: &Offer, now: Moment) -> bool {
        let terms = &self.order.terms;
        let is_long = match offer.how {
            Granted::AtOnce => offer.lease >= terms.lease().get(),
            Granted::InTurn => offer.lease >= terms.lease().get().min(queue::CLAIM),
        };
        is_long && !self.keeps_the_key() && offer.since.until(now) <= terms.ttl.get() / 10
    }
}

fn fits(now: Moment) -> impl Fn(&Waiter, &Offer) -> bool {
    move |waiter, offer| waiter.could_begin_with(offer, now)
}

/// A driver's number; one that is not the gate's any more has nothing to do.
pub(super) type Wheel = u64;

impl Keyed {
    /// Nothing has to be kept for anybody.
    pub(super) fn is_idle(&self) -> bool {
        self.gate.is_idle() && self.sent_away.is_empty()
    }

    /// Or it is of a lock that is held, and not to be handed on.
    pub(super) fn is_idle_at(&self, now: Moment) -> bool {
        self.gate.is_idle_at(now) && self.sent_away.is_empty()
    }

    pub(super) fn granted(&mut self, token: Token, offer: Offer) -> Fate {
        let fate = self.gate.granted(token, offer);
        if fate == Fate::Taken {
            self.wake_called();
        }
        fate
    }

    /// The answer to an acquire says so, read by whom this wakes: the one who asked itself looks now, and is not woken.
    pub(super) fn answered(&mut self, token: Token, offer: Offer, here: &Waker) -> Fate {
        let fate = self.gate.granted(token, offer);
        let called = self.gate.called().filter(|_| fate == Fate::Taken);
        let looks_now = |waker: &&Waker| called.is_some_and(|it| it.asks) && waker.will_wake(here);
        let waker = called.and_then(|called| called.waker.as_ref());
        let waker = waker.filter(|waker| !looks_now(waker)).cloned();
        self.wakes.add(waker);
        fate
    }

    /// The lock goes back to the server, earlier perhaps than the driver would ask for it.
    pub(super) fn left(&mut self, token: Token, now: Moment) {
        self.gate.left(token, now);
        self.rings |= self.gate.is_waited_at();
    }

    /// Who is next in line now may not be able to begin with what is held.
    pub(super) fn look_at_row(&mut self, now: Moment) {
        self.gate.end_row_unless(fits(now));
    }

    /// The holder is done. `true`: the next in line may have the lock from it; else it goes back to the server.
    pub(super) fn goes_on(&mut self, token: Token, now: Moment) -> bool {
        let goes_on = self.gate.can_hand_on(token, now, fits(now));
        if !goes_on {
            self.left(token, now);
        }
        goes_on
    }

    /// From its holder to the next in line.
    pub(super) fn hand_on(&mut self, token: Token, now: Moment) -> bool {
        let handed_on = self.gate.hand_on(token, now, fits(now));
        if handed_on {
            self.wake_called();
        } else {
            self.left(token, now);
        }
        handed_on
    }

    pub(super) fn hurry(&mut self, now: Moment) {
        self.gate.hurry(now);
        self.rings = true;
    }

    pub(super) fn hint(&mut self, now: Moment) {
        self.rings |= self.gate.hint(now);
    }

    pub(super) fn wake_called(&mut self) {
        let called = self.gate.called().and_then(|called| called.waker.clone());
        self.wakes.add(called);
    }

    pub(super) fn wake_all(&mut self) {
        for waiter in self.gate.waiters() {
            self.wakes.add(waiter.waker.clone());
        }
    }

    pub(super) fn pause(&mut self, wheel: Wheel, until: Moment) {
        if wheel == self.driver {
            self.gate.pause(until);
        }
    }

    pub(super) fn send_away(&mut self, error: &LockError) -> Option<Position> {
        let (line, unwanted) = self.gate.clear();
        for (seat, waiter) in line {
            self.sent_away.insert(seat, error.clone());
            self.wakes.add(waiter.waker);
        }
        self.rings = true;
        unwanted
    }

    pub(super) fn next(&mut self, wheel: Wheel, now: Moment) -> Next {
        if wheel != self.driver {
            return Next::Rest; // another one drives by now
        }
        self.driver_seen = Some(now);
        self.look_at_row(now);
        let next = self.gate.next(now);
        match next {
            Next::PassOn => self.wake_called(),
            Next::Sleep(_) => drop(self.bell()), // from here on it can be rung
            _ => {}
        }
        next
    }

    pub(super) fn bell(&mut self) -> Arc<Notify> {
        self.bell.get_or_insert_default().clone()
    }

    /// The bell, if somebody has asked that it rings, and a driver may hear it.
    pub(super) fn take_ring(&mut self) -> Option<Arc<Notify>> {
        let rings = std::mem::take(&mut self.rings);
        self.bell.as_ref().filter(|_| rings).cloned()
    }

    pub(super) fn take_wheel(&mut self, now: Moment) -> Option<Wheel> {
        self.gate.take_wheel().then(|| self.new_driver(now))
    }

    pub(super) fn new_driver(&mut self, now: Moment) -> Wheel {
        static WHEELS: AtomicU64 = AtomicU64::new(1);
        self.driver = WHEELS.fetch_add(1, Ordering::Relaxed);
        self.driver_seen = Some(now);
        self.driver
    }

    /// An acquire goes out; `false`: it must not, for another one drives by now, or a holder whose clock was read before the
    /// driver's has handed its lock on meanwhile.
    pub(super) fn asking(&mut self, wheel: Wheel, position: Position, now: Moment) -> bool {
        let drives = wheel == self.driver && self.gate.may_ask();
        if drives {
            // So that a wheel is never seized before this acquire is too late to create anything.
            self.driver_seen = Some(now);
            self.gate.asking(position);
        }
        drives
    }

    pub(super) fn is_stuck(&self, now: Moment, after: Duration) -> bool {
        self.gate.is_waited_at()
            && self
                .driver_seen
                .is_some_and(|seen| seen.until(now) >= after)
    }

    /// The driver has nothing to do, since nobody waits; `false`: it has.
    pub(super) fn rests(&mut self, wheel: Wheel) -> bool {
        let rests = !self.gate.is_waited_at();
        if rests {
            self.driver_gone(wheel);
        }
        rests
    }

    pub(super) fn driver_gone(&mut self, wheel: Wheel) {
        if wheel == self.driver {
            self.first_ask = None;
            self.gate.driver_gone();
            self.wake_all();
        }
    }
}

#[cfg(test)]
mod tests;
