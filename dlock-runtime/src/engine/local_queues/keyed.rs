//! One gate with what its host needs: who drives it, who is to be woken, and who has been sent away.
//!
//! Everything here happens under the mutex of the gates; what is woken is written down, and woken later.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::Duration;

use tokio::sync::Notify;

use crate::engine::lease_cell::LeaseCell;
use crate::engine::order::Order;
use crate::policy::client::{Client, GivenBack, Settled};
use crate::policy::gate::{Gate, Next, Offer, Position, Seat};
use crate::policy::tokens::Tokens;
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// The first acquire of a queue, sent by whoever is first until somebody comes behind.
pub(in crate::engine) trait FirstAttempt: fmt::Debug + Send + Sync {
    /// It goes on in a task of its own, so that one who is not polled stops nobody.
    fn spawn(&self);
}

#[derive(Debug, Default)]
pub(in crate::engine) struct Keyed {
    pub(in crate::engine) gate: Gate<Waiter>,
    /// What those hear who were sent away, until they have heard it.
    pub(in crate::engine) sent_away: BTreeMap<Seat, LockError>,
    /// Wakes the driver before its time; there is none before a driver sleeps for the first time.
    bell: Option<Arc<Notify>>,
    /// Which driver drives, and when it was last heard of.
    pub(in crate::engine) driver: Wheel,
    driver_seen: Option<Moment>,
    /// The first acquire, while whoever is first sends it.
    pub(in crate::engine) first_ask: Option<Arc<dyn FirstAttempt>>,
    /// The value of the last acquire, where the line is not for all: what `Keys` finds it by.
    pub(in crate::engine) asked: Option<Arc<str>>,
    /// Who is to be woken when the mutex is open again: waking may drop a task, which looks in here.
    pub(in crate::engine) wakes: Wakes,
    pub(in crate::engine) rings: bool,
    /// Which gate this is, among those that came and went.
    #[cfg(test)]
    pub(in crate::engine) itself: Arc<()>,
}

/// Nearly always nobody or one.
#[derive(Debug, Default)]
pub(in crate::engine) struct Wakes {
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

    pub(in crate::engine) fn wake(self) {
        self.one.into_iter().chain(self.more).for_each(Waker::wake);
    }
}

/// Somebody in line.
#[derive(Debug)]
pub(in crate::engine) struct Waiter {
    pub(in crate::engine) order: Arc<Order>,
    pub(in crate::engine) waker: Option<Waker>,
}

impl Waiter {
    pub(in crate::engine) fn new(order: Arc<Order>) -> Self {
        Self { order, waker: None }
    }

    pub(in crate::engine) fn listen_with(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker), // costs nothing if it is the same
            none => *none = Some(waker.clone()),
        }
    }
}

fn fits(now: Moment) -> impl Fn(&Waiter, &Offer) -> bool {
    move |waiter, offer| offer.suits(&waiter.order.terms, now)
}

/// A driver's number; one that is not the gate's any more has nothing to do.
pub(in crate::engine) type Wheel = u64;

impl Keyed {
    /// Nothing has to be kept for anybody.
    pub(in crate::engine) fn is_idle(&self) -> bool {
        self.gate.is_idle() && self.sent_away.is_empty()
    }

    /// As [`is_idle`](Self::is_idle); also if all it knows is a held lock that can't be handed on any more.
    pub(in crate::engine) fn is_idle_at(&self, now: Moment) -> bool {
        self.gate.is_idle_at(now) && self.sent_away.is_empty()
    }

    /// Who is next in line now may not be able to begin with what is held.
    pub(in crate::engine) fn look_at_row(&mut self, now: Moment) {
        self.gate.end_row_unless(fits(now));
    }

    pub(in crate::engine) fn hurry(&mut self, now: Moment) {
        self.gate.hurry(now);
        self.rings = true;
    }

    pub(in crate::engine) fn hint(&mut self, now: Moment) {
        self.rings |= self.gate.hint(now);
    }

    pub(in crate::engine) fn wake_called(&mut self) {
        let called = self.gate.called().and_then(|called| called.waker.clone());
        self.wakes.add(called);
    }

    pub(in crate::engine) fn wake_all(&mut self) {
        for waiter in self.gate.waiters() {
            self.wakes.add(waiter.waker.clone());
        }
    }

    pub(in crate::engine) fn pause(&mut self, wheel: Wheel, until: Moment) {
        if wheel == self.driver {
            self.gate.pause(until);
        }
    }

    pub(in crate::engine) fn bell(&mut self) -> Arc<Notify> {
        self.bell.get_or_insert_default().clone()
    }

    /// The bell, if somebody has asked that it rings, and a driver may hear it.
    pub(in crate::engine) fn take_ring(&mut self) -> Option<Arc<Notify>> {
        let rings = std::mem::take(&mut self.rings);
        self.bell.as_ref().filter(|_| rings).cloned()
    }

    pub(in crate::engine) fn take_wheel(&mut self, now: Moment) -> Option<Wheel> {
        self.gate.take_wheel().then(|| self.new_driver(now))
    }

    pub(in crate::engine) fn new_driver(&mut self, now: Moment) -> Wheel {
        static WHEELS: AtomicU64 = AtomicU64::new(1);
        self.driver = WHEELS.fetch_add(1, Ordering::Relaxed);
        self.driver_seen = Some(now);
        self.driver
    }

    pub(in crate::engine) fn is_stuck(&self, now: Moment, after: Duration) -> bool {
        self.gate.is_waited_at()
            && self
                .driver_seen
                .is_some_and(|seen| seen.until(now) >= after)
    }

    /// The driver has nothing to do, since nobody waits; `false`: it has.
    pub(in crate::engine) fn rests(&mut self, wheel: Wheel) -> bool {
        let rests = !self.gate.is_waited_at();
        if rests {
            self.driver_gone(wheel);
        }
        rests
    }

    pub(in crate::engine) fn driver_gone(&mut self, wheel: Wheel) {
        if wheel == self.driver {
            self.first_ask = None;
            self.gate.driver_gone();
            self.wake_all();
        }
    }
}

/// A queue and the pool's tokens, under the client's lock.
pub(in crate::engine) struct Locked<'a> {
    pub(in crate::engine) keyed: &'a mut Keyed,
    pub(in crate::engine) tokens: &'a mut Tokens<Arc<LeaseCell>>,
    pub(in crate::engine) command_timeout: Duration,
    /// A lease that begins: whoever has the lock sees to it that somebody watches over it.
    pub(super) begins: Option<Token>,
}

impl Locked<'_> {
    pub(in crate::engine) fn client(&mut self) -> Client<'_, Waiter, Arc<LeaseCell>> {
        Client {
            queue: Some(&mut self.keyed.gate),
            tokens: self.tokens,
            command_timeout: self.command_timeout,
        }
    }

    /// An acquire goes out; `false`: it must not, for another driver has taken over, or a holder whose clock was read before
    /// the driver's has handed its lock on meanwhile.
    pub(in crate::engine) fn sending(
        &mut self,
        wheel: Wheel,
        position: Position,
        now: Moment,
    ) -> bool {
        let may_send = wheel == self.keyed.driver && self.keyed.gate.may_ask();
        if may_send {
            // So that a wheel is never seized before this acquire is too late to create anything.
            self.keyed.driver_seen = Some(now);
            self.client().sending(position);
        }
        may_send
    }

    pub(in crate::engine) fn granted(
        &mut self,
        token: Token,
        offer: Offer,
        now: Moment,
    ) -> Settled {
        let settled = self.client().granted(token, offer, now);
        if settled == Settled::Taken {
            self.keyed.wake_called();
        }
        settled
    }

    pub(in crate::engine) fn next(&mut self, wheel: Wheel, now: Moment) -> Next {
        if wheel != self.keyed.driver {
            return Next::Rest; // another one drives by now
        }
        self.keyed.driver_seen = Some(now);
        self.keyed.look_at_row(now);
        let next = self.client().next(now);
        match next {
            Next::PassOn => self.keyed.wake_called(),
            Next::Sleep(_) => drop(self.keyed.bell()), // from here on it can be rung
            _ => {}
        }
        next
    }

    pub(in crate::engine) fn send_away(&mut self, error: &LockError, now: Moment) -> Option<Token> {
        let (line, unowned) = self.client().clear(now);
        for (seat, waiter) in line {
            self.keyed.sent_away.insert(seat, error.clone());
            self.keyed.wakes.add(waiter.waker);
        }
        self.keyed.rings = true;
        unowned
    }

    /// The holder is done; `may_hand_on`: the next waiter here may have the lock. `ended`: as in [`Client::give_back`].
    pub(in crate::engine) fn give_back(
        &mut self,
        token: Token,
        now: Moment,
        may_hand_on: bool,
        ended: impl FnOnce(),
    ) -> GivenBack {
        let given_back =
            (self.client()).give_back(token, now, may_hand_on.then(|| fits(now)), ended);
        self.has_left(given_back == GivenBack::HandedOn);
        given_back
    }

    /// The same where nobody is left who would release it; whether it was handed on.
    pub(in crate::engine) fn drop_hold(
        &mut self,
        token: Token,
        now: Moment,
        may_hand_on: bool,
        ended: impl FnOnce(),
    ) -> bool {
        let handed_on =
            (self.client()).drop_hold(token, now, may_hand_on.then(|| fits(now)), ended);
        self.has_left(handed_on);
        handed_on
    }

    /// To the next waiter here, or to the server: earlier perhaps than the driver would ask for it.
    fn has_left(&mut self, handed_on: bool) {
        if handed_on {
            self.keyed.wake_called();
        } else {
            self.keyed.rings |= self.keyed.gate.is_waited_at();
        }
    }
}
