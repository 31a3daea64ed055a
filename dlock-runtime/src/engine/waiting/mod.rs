//! Waiting for a lock: the gates of a pool, one for each key that somebody of this process wants.
//!
//! `policy::gate` decides; here is what it decides for. `ticket` is one waiter, who only looks and is
//! woken; `driver` is a task that sends what the gate asks for, so that a waiter which is not polled, or
//! goes away, stops nobody. Whatever happens to a gate happens under one mutex, which is never held
//! while something is sent or awaited, nor together with the token table's.

mod driver;
mod outage;
mod ticket;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use tokio::sync::Notify;

use super::acquire::Order;
use crate::policy::gate::{Fate, Gate, Look, Next, Offer, Position, Seat};
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) use self::ticket::Ticket;

/// The gates of a pool.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    keys: Mutex<HashMap<Arc<str>, Keyed>>,
}

#[derive(Debug, Default)]
struct Keyed {
    gate: Gate<Waiter>,
    /// What those hear who were sent away, until they have heard it.
    sent_away: BTreeMap<Seat, LockError>,
    /// Wakes the driver before its time.
    bell: Arc<Notify>,
    /// Who is to be woken when the mutex is open again: waking may drop a task, which looks in here.
    wakes: Vec<Waker>,
    rings: bool,
}

/// Somebody in line.
#[derive(Debug)]
struct Waiter {
    order: Arc<Order>,
    waker: Option<Waker>,
}

/// A seat that was taken, and whether whoever took it has to drive.
struct Entered {
    seat: Seat,
    drives: bool,
}

/// What a waiter finds when it looks.
enum Sight {
    Wait,
    /// Somebody has to drive: this one.
    Drive,
    Yours(Position, Offer),
    SentAway(LockError),
}

/// What waiters do.
impl Gates {
    fn enter(&self, order: Arc<Order>) -> Entered {
        let mut keys = self.lock();
        let keyed = keys.entry(order.name.clone()).or_default();
        let waiter = Waiter { order, waker: None };
        Entered {
            seat: keyed.gate.enter(waiter),
            drives: keyed.gate.take_wheel(),
        }
    }

    /// Second: what has to be cleaned up.
    fn look(&self, key: &str, seat: Seat, now: Moment, waker: &Waker) -> (Sight, Option<Position>) {
        let looked = self.at(key, |keyed| {
            if let Some(error) = keyed.sent_away.remove(&seat) {
                return (Sight::SentAway(error), None);
            }
            let stale = match keyed.gate.look(seat, now) {
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
                waiter.waker = Some(waker.clone());
            }
            let sight = if keyed.gate.take_wheel() {
                Sight::Drive
            } else {
                Sight::Wait
            };
            (sight, stale)
        });
        looked.unwrap_or((Sight::Wait, None)) // a seat keeps its gate
    }

    /// What has to be cleaned up because nobody is left.
    fn leave(&self, key: &str, seat: Seat) -> Option<Position> {
        self.at(key, |keyed| {
            keyed.sent_away.remove(&seat);
            let unwanted = keyed.gate.leave(seat);
            keyed.wake_first(); // what was offered may be the next one's now
            keyed.rings = true;
            unwanted
        })
        .flatten()
    }

    fn is_waited_at(&self, key: &str) -> bool {
        self.at(key, |keyed| keyed.gate.is_waited_at())
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

    /// Sends everybody away who waits for anything; the tokens that have to be cleaned up.
    pub(crate) fn close(&self, error: &LockError) -> Vec<Position> {
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
    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, Keyed>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something at a gate, if there is one; one that nobody would miss goes.
    fn at<T>(&self, key: &str, change: impl FnOnce(&mut Keyed) -> T) -> Option<T> {
        let mut keys = self.lock();
        let keyed = keys.get_mut(key)?;
        let changed = change(keyed);
        let wakes = std::mem::take(&mut keyed.wakes);
        let bell = std::mem::take(&mut keyed.rings).then(|| keyed.bell.clone());
        if keyed.gate.is_idle() && keyed.sent_away.is_empty() {
            keys.remove(key);
        }
        drop(keys);
        wakes.into_iter().for_each(Waker::wake);
        if let Some(bell) = bell {
            bell.notify_one();
        }
        Some(changed)
    }

    fn keys(&self) -> Vec<Arc<str>> {
        self.lock().keys().cloned().collect()
    }

    /// How many gates there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

impl Keyed {
    fn granted(&mut self, token: Token, offer: Offer) -> Fate {
        let fate = self.gate.granted(token, offer);
        if fate == Fate::Taken {
            self.wake_first();
        }
        fate
    }

    fn hurry(&mut self, now: Moment) {
        self.gate.hurry(now);
        self.rings = true;
    }

    fn wake_first(&mut self) {
        let first = self.gate.first().and_then(|first| first.waker.clone());
        self.wakes.extend(first);
    }

    fn wake_all(&mut self) {
        let all = self.gate.waiters().filter_map(|it| it.waker.clone());
        self.wakes.extend(all);
    }

    fn send_away(&mut self, error: &LockError) -> Option<Position> {
        let (line, unwanted) = self.gate.clear();
        for (seat, waiter) in line {
            self.sent_away.insert(seat, error.clone());
            self.wakes.extend(waiter.waker);
        }
        self.rings = true;
        unwanted
    }

    fn next(&mut self, now: Moment) -> Next {
        self.gate.next(now)
    }
}
