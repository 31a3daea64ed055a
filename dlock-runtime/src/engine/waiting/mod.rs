//! Waiting for a lock: the gates of a pool, one for each line that somebody of this process waits in.
//!
//! `policy::gate` decides; here is what it decides for. `ticket` is one waiter, who only looks and is
//! woken; `lane` says which line it is in; `driver` is a task that sends what the gate asks for, so that a waiter which is not polled, or
//! goes away, stops nobody; `keyed` is a gate and its surroundings, `keys` has all of them. Whatever happens to a gate happens
//! under one mutex, which is never held while something is sent or awaited, nor together with the token
//! table's.

mod driver;
mod first_ask;
mod keyed;
mod keys;
mod lane;
mod outage;
#[cfg(test)]
mod tests;
mod ticket;

use std::sync::{Arc, PoisonError};
#[cfg(not(test))]
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;
use std::time::Duration;

use super::acquire::Order;
use crate::policy::gate::{Fate, Look, Offer, Position, Seat};
use crate::values::error::LockError;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

use self::first_ask::FirstAsk;
use self::keyed::{Keyed, Waiter, Wheel};
use self::keys::Keys;
pub(crate) use self::lane::Lane;
#[cfg(test)]
use self::tests::mutex::{Mutex, MutexGuard};
pub(super) use self::ticket::Ticket;

/// The gates of a pool.
#[derive(Debug)]
pub(crate) struct Gates {
    keys: Mutex<Keys>,
    /// A driver that was not heard of for so long is stuck: nobody runs its runtime.
    stuck_after: Duration,
    handoff: Handoff,
    margin: Margin,
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

/// What else a look tells.
#[derive(Default)]
struct Beside {
    /// What has to be cleaned up.
    unwanted: Option<Position>,
    /// Somebody waits behind the first.
    is_crowded: bool,
    /// The driver that was named has nothing to do any more.
    is_dismissed: bool,
}

/// What waiters do.
impl Gates {
    /// `one_step`: what a driver may take for one command, connecting included.
    pub(crate) fn new(one_step: Duration, handoff: Handoff, margin: Margin) -> Self {
        Self {
            keys: Mutex::default(),
            stuck_after: one_step + Duration::from_secs(2),
            handoff,
            margin,
        }
    }

    fn enter(&self, order: Arc<Order>, now: Moment) -> Entered {
        let mut keys = self.lock();
        let closed = keys.closed.clone();
        let lane = &order.lane;
        let keyed = keys.at(lane, now);
        let nobody_hears = keyed.gate.is_waited_at() && keyed.gate.first().is_none();
        let might_be_handed_on = keyed.gate.may_be_handed_on(now);
        let seat = keyed.gate.enter(Waiter::new(order));
        keyed.look_at_row(now);
        let row_ends = might_be_handed_on && !keyed.gate.may_be_handed_on(now);
        if let Some(error) = closed {
            keyed.gate.leave(seat); // alone: those before it have been sent away by whoever closed
            keyed.sent_away.insert(seat, error);
        }
        let wheel = keyed.take_wheel(now);
        if let (Some(_), Some(waiter)) = (wheel, keyed.gate.waiter(seat)) {
            waiter.asks = true;
        }
        let first_ask = keyed.first_ask.clone();
        keyed.rings |= nobody_hears || row_ends; // the driver rests
        let bell = keyed.take_ring();
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
    fn first_asks(&self, lane: &Lane, ask: &Arc<FirstAsk>) {
        self.at(lane, |keyed| keyed.first_ask = Some(ask.clone()));
    }

    /// `driver`: one that has done what it was for, and may be dismissed.
    fn look(
        &self,
        lane: &Lane,
        seat: Seat,
        now: Moment,
        waker: &Waker,
        driver: Option<Wheel>,
    ) -> (Sight, Beside) {
        let looked = self.at(lane, |keyed| {
            let (sight, unwanted) = self.look_at(keyed, seat, now, waker);
            let is_crowded = keyed.gate.waiters().nth(1).is_some();
            let beside = Beside {
                unwanted,
                is_crowded,
                is_dismissed: driver.is_some_and(|wheel| keyed.rests(wheel)),
            };
            (sight, beside)
        });
        looked.unwrap_or((Sight::Wait, Beside::default())) // a seat keeps its gate
    }

    fn look_at(
        &self,
        keyed: &mut Keyed,
        seat: Seat,
        now: Moment,
        waker: &Waker,
    ) -> (Sight, Option<Position>) {
        if let Some(error) = keyed.sent_away.remove(&seat) {
            return (Sight::SentAway(error), None);
        }
        keyed.rings |= keyed.gate.hears(seat);
        let keeps = keyed.gate.waiter(seat).is_some_and(|it| it.keeps_the_key());
        let mut unwanted = match keyed.gate.look(seat, now) {
            Look::Yours(position, offer) => {
                if keeps {
                    keyed.gate.end_row();
                } else {
                    keyed.look_at_row(now);
                }
                // The next in line wants a place; and of a grant that was pushed the driver knows nothing.
                keyed.rings |= offer.row.index == 0 || !keyed.gate.may_be_handed_on(now);
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
    }

    /// What has to be cleaned up because nobody is left.
    fn leave(&self, lane: &Lane, seat: Seat) -> Option<Position> {
        self.at(lane, |keyed| {
            keyed.sent_away.remove(&seat);
            let unwanted = keyed.gate.leave(seat);
            keyed.wake_called(); // what was offered may be the next one's now
            keyed.rings = true;
            unwanted
        })
        .flatten()
    }

    /// A driver's acquire goes out; `false`: it drives no more, and must not.
    fn asking(&self, lane: &Lane, wheel: Wheel, position: Position, now: Moment) -> bool {
        self.lock().asking(lane, wheel, position, now)
    }

    fn is_waited_at(&self, lane: &Lane) -> bool {
        self.at(lane, |keyed| keyed.gate.is_waited_at())
            .unwrap_or(false)
    }

    /// The place with this token is no more; `false` when the token is no place's (any more).
    pub(super) fn ended(&self, lane: &Lane, token: Token, now: Moment) -> bool {
        self.at(lane, |keyed| keyed.gate.ended(token, now))
            .unwrap_or(false)
    }

    /// The lock is no longer held, and goes back to the server.
    pub(crate) fn vacated(&self, lane: &Lane, token: Token, now: Moment) {
        self.at(lane, |keyed| keyed.left(token, now));
    }

    /// The holder is done. `true`: the next in line may have the lock from it, so [`hand_on`](Self::hand_on) follows.
    pub(crate) fn left(&self, lane: &Lane, token: Token, now: Moment) -> bool {
        self.at(lane, |keyed| keyed.goes_on(token, now))
            .unwrap_or(false)
    }

    /// `false`: nobody is there to have it any more, and it goes back to the server.
    pub(crate) fn hand_on(&self, lane: &Lane, token: Token, now: Moment) -> bool {
        self.at(lane, |keyed| keyed.hand_on(token, now))
            .unwrap_or(false)
    }

    /// What the server granted may be handed on within the pool's bounds.
    fn to_be_handed_on(&self, offer: Offer) -> Offer {
        offer.to_be_handed_on(&self.handoff, self.margin)
    }

    /// Sends everybody away who waits for anything, or comes later; the tokens that have to be cleaned up.
    pub(crate) fn close(&self, error: &LockError) -> Vec<Position> {
        self.lock().closed = Some(error.clone());
        let unwanted = |lane: &Lane| self.at(lane, |keyed| keyed.send_away(error)).flatten();
        self.lanes().iter().filter_map(unwanted).collect()
    }
}

/// What the server says unasked.
impl Gates {
    /// A place was granted. `offer` is `None` where it can't be told since when: then it has to be asked.
    pub(crate) fn granted(
        &self,
        key: &Arc<str>,
        value: &str,
        offer: Option<Offer>,
        now: Moment,
    ) -> Fate {
        let lane = self.lock().awaits(key, value);
        let fate = lane.and_then(|lane| {
            self.at(&lane, |keyed| {
                let Some(token) = keyed.gate.awaits(value) else {
                    return Fate::NotOurs;
                };
                let Some(offer) = offer else {
                    keyed.hint(now);
                    return Fate::Taken;
                };
                keyed.granted(token, self.to_be_handed_on(offer))
            })
        });
        fate.unwrap_or(Fate::NotOurs)
    }

    /// A place may have been granted: its driver asks, but not for each such word.
    pub(crate) fn hinted(&self, key: &Arc<str>, value: &str, now: Moment) {
        let lane = self.lock().awaits(key, value);
        if let Some(lane) = lane {
            self.at(&lane, |keyed| {
                if keyed.gate.awaits(value).is_some() {
                    keyed.hint(now);
                }
            });
        }
    }

    /// Something may have been missed: every driver asks.
    pub(crate) fn hurry_all(&self, now: Moment) {
        for lane in self.lanes() {
            self.at(&lane, |keyed| keyed.hurry(now));
        }
    }
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something at a gate, if there is one; one that nobody would miss goes.
    fn at<T>(&self, lane: &Lane, change: impl FnOnce(&mut Keyed) -> T) -> Option<T> {
        let mut keys = self.lock();
        let keyed = keys.gates.get_mut(lane)?;
        let changed = change(keyed);
        let wakes = std::mem::take(&mut keyed.wakes);
        let bell = keyed.take_ring();
        if keyed.is_idle() {
            keys.remove(lane);
        }
        drop(keys);
        wakes.wake();
        if let Some(bell) = bell {
            bell.notify_one();
        }
        Some(changed)
    }

    fn lanes(&self) -> Vec<Lane> {
        self.lock().gates.keys().cloned().collect()
    }
}
