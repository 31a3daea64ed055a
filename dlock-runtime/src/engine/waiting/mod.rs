//! Waiting for a lock: the gates of a pool, one for each key that somebody of this process wants.
//!
//! `policy::gate` decides; here is what it decides for. `ticket` is one waiter, who only looks and is
//! woken; `driver` is a task that sends what the gate asks for, so that a waiter which is not polled, or
//! goes away, stops nobody; `keyed` is a gate and its surroundings. Whatever happens to a gate happens
//! under one mutex, which is never held while something is sent or awaited, nor together with the token
//! table's.

mod driver;
mod first_ask;
mod keyed;
mod outage;
#[cfg(test)]
mod tests;
mod ticket;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
#[cfg(not(test))]
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use super::acquire::Order;
use crate::policy::gate::{Fate, Look, Offer, Position, Seat};
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;

use self::first_ask::FirstAsk;
use self::keyed::{Keyed, Waiter, Wheel};
#[cfg(test)]
use self::tests::mutex::{Mutex, MutexGuard};
pub(super) use self::ticket::Ticket;

/// The gates of a pool.
#[derive(Debug)]
pub(crate) struct Gates {
    keys: Mutex<Keys>,
    /// A driver that was not heard of for so long is stuck: nobody runs its runtime.
    stuck_after: Duration,
}

#[derive(Debug, Default)]
struct Keys {
    gates: HashMap<Arc<str>, Keyed>,
    /// What everybody hears from here on who comes.
    closed: Option<LockError>,
}

/// A seat that was taken.
struct Entered {
    seat: Seat,
    /// Whoever took it has to drive.
    wheel: Option<Wheel>,
    /// Somebody in front sends the first acquire, and may not be polled while this one waits.
    first_ask: Option<Arc<FirstAsk>>,
}

/// What a waiter finds when it looks.
enum Sight {
    Wait,
    /// Somebody has to drive: this one.
    Drive(Wheel),
    Yours(Position, Offer),
    SentAway(LockError),
}

/// What waiters do.
impl Gates {
    /// `one_step`: what a driver may take for one command, connecting included.
    pub(crate) fn new(one_step: Duration) -> Self {
        Self {
            keys: Mutex::default(),
            stuck_after: one_step + Duration::from_secs(2),
        }
    }

    fn enter(&self, order: Arc<Order>, now: Moment) -> Entered {
        let mut keys = self.lock();
        let closed = keys.closed.clone();
        let keyed = keys.gates.entry(order.name.clone()).or_default();
        let nobody_hears = keyed.gate.is_waited_at() && keyed.gate.first().is_none();
        let seat = keyed.gate.enter(Waiter { order, waker: None });
        if let Some(error) = closed {
            keyed.gate.leave(seat); // alone: those before it have been sent away by whoever closed
            keyed.sent_away.insert(seat, error);
        }
        let wheel = keyed.take_wheel(now);
        let first_ask = keyed.first_ask.clone();
        let bell = nobody_hears.then(|| keyed.bell.clone()); // the driver rests
        drop(keys);
        if let Some(bell) = bell {
            bell.notify_one();
        }
        Entered {
            seat,
            wheel,
            first_ask,
        }
    }

    /// What the first in line sends, for those who come to take over.
    fn first_asks(&self, key: &str, ask: &Arc<FirstAsk>) {
        self.at(key, |keyed| keyed.first_ask = Some(ask.clone()));
    }

    /// Second: what has to be cleaned up.
    fn look(&self, key: &str, seat: Seat, now: Moment, waker: &Waker) -> (Sight, Option<Position>) {
        let looked = self.at(key, |keyed| {
            if let Some(error) = keyed.sent_away.remove(&seat) {
                return (Sight::SentAway(error), None);
            }
            keyed.rings |= keyed.gate.hears(seat);
            let mut unwanted = match keyed.gate.look(seat, now) {
                Look::Yours(position, offer) => {
                    keyed.rings = true; // the next in line wants a place
                    return (Sight::Yours(position, offer), None);
                }
                Look::Stale(position) => {
                    keyed.rings = true;
                    Some(position)
                }
                Look::Wait => None,
            };
            if let Some(waiter) = keyed.gate.waiter(seat) {
                waiter.listen_with(waker);
            }
            let mut wheel = keyed.take_wheel(now);
            if wheel.is_none() && keyed.is_stuck(now, self.stuck_after) {
                unwanted = unwanted.or(keyed.gate.seize_wheel());
                wheel = Some(keyed.new_driver(now));
            }
            (wheel.map_or(Sight::Wait, Sight::Drive), unwanted)
        });
        looked.unwrap_or((Sight::Wait, None)) // a seat keeps its gate
    }

    /// What has to be cleaned up because nobody is left.
    fn leave(&self, key: &str, seat: Seat) -> Option<Position> {
        self.at(key, |keyed| {
            keyed.sent_away.remove(&seat);
            let unwanted = keyed.gate.leave(seat);
            keyed.wake_called(); // what was offered may be the next one's now
            keyed.rings = true;
            unwanted
        })
        .flatten()
    }

    fn is_waited_at(&self, key: &str) -> bool {
        self.at(key, |keyed| keyed.gate.is_waited_at())
            .unwrap_or(false)
    }

    /// Whether somebody waits behind the first.
    fn is_crowded(&self, key: &str) -> bool {
        self.at(key, |keyed| keyed.gate.waiters().nth(1).is_some())
            .unwrap_or(false)
    }

    /// The place with this token is no more; `false` when the token is no place's (any more).
    pub(super) fn ended(&self, key: &str, token: Token, now: Moment) -> bool {
        self.at(key, |keyed| keyed.gate.ended(token, now))
            .unwrap_or(false)
    }

    /// The holder gives the lock back, or is gone.
    pub(crate) fn left(&self, key: &str, token: Token, now: Moment) {
        self.at(key, |keyed| keyed.gate.left(token, now));
    }

    /// Sends everybody away who waits for anything, or comes later; the tokens that have to be cleaned up.
    pub(crate) fn close(&self, error: &LockError) -> Vec<Position> {
        self.lock().closed = Some(error.clone());
        let unwanted = |key: &Arc<str>| self.at(key, |keyed| keyed.send_away(error)).flatten();
        self.keys().iter().filter_map(unwanted).collect()
    }
}

/// What the server says unasked.
impl Gates {
    /// A place was granted. `offer` is `None` where it can't be told since when: then it has to be asked.
    pub(crate) fn granted(
        &self,
        key: &str,
        value: &str,
        offer: Option<Offer>,
        now: Moment,
    ) -> Fate {
        self.at(key, |keyed| {
            let Some(token) = keyed.gate.awaits(value) else {
                return Fate::NotOurs;
            };
            let Some(offer) = offer else {
                keyed.hurry(now);
                return Fate::Taken;
            };
            keyed.granted(token, offer)
        })
        .unwrap_or(Fate::NotOurs)
    }

    /// Something may have been missed: every driver asks.
    pub(crate) fn hurry_all(&self, now: Moment) {
        for key in self.keys() {
            self.at(&key, |keyed| keyed.hurry(now));
        }
    }
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something at a gate, if there is one; one that nobody would miss goes.
    fn at<T>(&self, key: &str, change: impl FnOnce(&mut Keyed) -> T) -> Option<T> {
        let mut keys = self.lock();
        let keyed = keys.gates.get_mut(key)?;
        let changed = change(keyed);
        let wakes = std::mem::take(&mut keyed.wakes);
        let bell = std::mem::take(&mut keyed.rings).then(|| keyed.bell.clone());
        if keyed.gate.is_idle() && keyed.sent_away.is_empty() {
            keys.gates.remove(key);
        }
        drop(keys);
        wakes.into_iter().for_each(Waker::wake);
        if let Some(bell) = bell {
            bell.notify_one();
        }
        Some(changed)
    }

    fn keys(&self) -> Vec<Arc<str>> {
        self.lock().gates.keys().cloned().collect()
    }
}
