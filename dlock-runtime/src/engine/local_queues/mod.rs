//! Those of this process who wait for a lock: one queue for each key, or for each waiter that needs
//! an entry of its own at the server.
//!
//! `lane` says which queue somebody waits in, `keyed` is a queue and its surroundings, `keys` has all
//! of them. What waiters do is here, `attempts` is what is sent for them and answered, `holders` how a
//! lock goes on from one who has it. `policy::client` decides; here that happens under the lock of `shared`, and what follows
//! (wakers, notifications, the watchdog) is done when the lock is open again.
//!
//! Never in this folder: a command that is sent (`waiting` does), a decision about a lock.

mod attempts;
mod holders;
mod keyed;
pub(super) mod keys;
pub(super) mod lane;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use super::lease_cell::LeaseCell;
use super::order::Order;
use super::shared::{Shared, State};
use crate::policy::client::{Client, Looked, Settled};
use crate::policy::gate::{Offer, Position, Seat};
use crate::policy::lease::Lease;
use crate::sync::MutexGuard;
use crate::values::error::LockError;
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::token::Token;
use crate::values::ttl::Margin;

use self::keyed::Waiter;
pub(super) use self::keyed::{FirstAttempt, Locked, Wheel};
use self::lane::Lane;

/// The local queues of a pool.
#[derive(Debug)]
pub(super) struct Gates {
    shared: Arc<Shared>,
    /// A driver that was not heard of for so long is stuck: nobody runs its runtime.
    stuck_after: Duration,
    handoff: Handoff,
    margin: Margin,
}

/// A seat that was taken.
pub(super) struct Entered {
    pub(super) seat: Seat,
    /// Whoever took it has to drive.
    pub(super) wheel: Option<Wheel>,
    /// Somebody in front sends the first acquire, and may not be polled while this one waits.
    pub(super) first_ask: Option<Arc<dyn FirstAttempt>>,
}

/// A lock that was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) position: Position,
    pub(super) offer: Offer,
    pub(super) cell: Arc<LeaseCell>,
}

/// What a waiter finds when it looks.
pub(super) enum Sight {
    Wait,
    /// Somebody has to drive: this one.
    Drive(Wheel),
    Yours(Taken),
    /// It was its turn, but too late for its own ttl: it has left the queue, and may come again.
    TooLate,
    SentAway(LockError),
}

/// The first acquire was answered, and the waiter who sent it has read that.
#[derive(Clone, Copy)]
pub(super) struct Answered {
    /// Who sent it: has done what it was for, and may be dismissed.
    pub(super) wheel: Wheel,
    pub(super) granted: Option<(Token, Offer)>,
}

/// What else a look tells.
#[derive(Default)]
pub(super) struct Beside {
    /// Tokens that are being cleaned up after.
    pub(super) unowned: [Option<Token>; 2],
    /// Somebody waits behind the first.
    pub(super) is_crowded: bool,
    /// Who sent the first acquire has nothing to do any more.
    pub(super) is_dismissed: bool,
}

/// What waiters do.
impl Gates {
    /// `one_step`: what a driver may take for one command, connecting included.
    pub(super) fn new(
        shared: Arc<Shared>,
        one_step: Duration,
        handoff: Handoff,
        margin: Margin,
    ) -> Self {
        Self {
            shared,
            stuck_after: one_step + Duration::from_secs(2),
            handoff,
            margin,
        }
    }

    pub(super) fn enter(&self, order: Arc<Order>, now: Moment) -> Entered {
        let mut state = self.lock();
        let closed = state.queues.closed.clone();
        let lane = &order.lane;
        let keyed = state.queues.at(lane, now);
        let nobody_waits = !keyed.gate.is_waited_at();
        let nobody_hears = !nobody_waits && keyed.gate.first().is_none();
        let might_be_handed_on = keyed.gate.may_be_handed_on(now);
        // The driver may still sleep until the end of a row of hand-offs whose lock has been released since.
        let driver_may_ask = nobody_waits && keyed.gate.may_ask() && !might_be_handed_on;
        let seat = keyed.gate.enter(Waiter::new(order));
        keyed.look_at_row(now);
        let row_ends = might_be_handed_on && !keyed.gate.may_be_handed_on(now);
        if let Some(error) = closed {
            keyed.gate.leave(seat); // alone: those before it have been sent away by whoever closed
            keyed.sent_away.insert(seat, error);
        }
        let wheel = keyed.take_wheel(now);
        let first_ask = keyed.first_ask.clone();
        keyed.rings |= nobody_hears || row_ends || driver_may_ask;
        let bell = keyed.take_ring();
        drop(state);
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
    pub(super) fn first_asks(&self, lane: &Lane, ask: Arc<dyn FirstAttempt>) {
        self.at(lane, |it| it.keyed.first_ask = Some(ask));
    }

    /// `answered`: what this waiter has read.
    pub(super) fn look(
        &self,
        order: &Order,
        seat: Seat,
        now: Moment,
        waker: &Waker,
        answered: Option<Answered>,
    ) -> (Sight, Beside) {
        let looked = self.at(&order.lane, |it| {
            let granted = answered.and_then(|it| it.granted).map(|(token, offer)| {
                let offer = self.to_be_handed_on(offer, now);
                it.client().granted(token, offer, now)
            });
            let (sight, unowned) = self.look_at(it, order, seat, now, waker);
            if granted == Some(Settled::Taken) && !matches!(sight, Sight::Yours(_)) {
                it.keyed.wake_called(); // who reads the answer looks anyway
            }
            let is_crowded = it.keyed.gate.waiters().nth(1).is_some();
            let beside = Beside {
                unowned: [granted.and_then(Settled::unowned), unowned],
                is_crowded,
                is_dismissed: answered.is_some_and(|by| it.keyed.rests(by.wheel)),
            };
            (sight, beside)
        });
        looked.unwrap_or((Sight::Wait, Beside::default())) // a seat keeps its queue
    }

    fn look_at(
        &self,
        it: &mut Locked<'_>,
        order: &Order,
        seat: Seat,
        now: Moment,
        waker: &Waker,
    ) -> (Sight, Option<Token>) {
        if let Some(error) = it.keyed.sent_away.remove(&seat) {
            return (Sight::SentAway(error), None);
        }
        it.keyed.rings |= it.keyed.gate.hears(seat);
        let holder = |position: &Position, lease: &_| self.cell(position, lease);
        let looked = it.client().look(seat, now, &order.terms, holder);
        let mut unowned = match looked {
            Looked::Yours(position, offer, cell) => {
                if order.terms.bounds.min_hold.is_some() {
                    it.keyed.gate.end_row(); // it hands nothing on
                } else {
                    it.keyed.look_at_row(now);
                }
                // The next in line wants a place; and of a grant that was pushed the driver knows nothing.
                it.keyed.rings |= offer.row.index == 0 || !it.keyed.gate.may_be_handed_on(now);
                it.begins = Some(position.token);
                let taken = Taken {
                    position,
                    offer,
                    cell,
                };
                return (Sight::Yours(taken), None);
            }
            Looked::TooLate { unowned, left } => {
                it.keyed.rings = true;
                if left {
                    return (Sight::TooLate, Some(unowned));
                }
                Some(unowned)
            }
            Looked::Wait => None,
        };
        if let Some(waiter) = it.keyed.gate.waiter(seat) {
            waiter.listen_with(waker);
        }
        let mut wheel = it.keyed.take_wheel(now);
        if wheel.is_none() && it.keyed.is_stuck(now, self.stuck_after) {
            unowned = unowned.or(it.client().take_over(now));
            wheel = Some(it.keyed.new_driver(now));
        }
        (wheel.map_or(Sight::Wait, Sight::Drive), unowned)
    }

    /// The token that is being cleaned up after because nobody is left.
    pub(super) fn leave(&self, lane: &Lane, seat: Seat, now: Moment) -> Option<Token> {
        self.at(lane, |it| {
            it.keyed.sent_away.remove(&seat);
            let unowned = it.client().leave(seat, now);
            it.keyed.wake_called(); // what was offered may be the next one's now
            it.keyed.rings = true;
            unowned
        })
        .flatten()
    }

    pub(super) fn is_waited_at(&self, lane: &Lane) -> bool {
        self.at(lane, |it| it.keyed.gate.is_waited_at())
            .unwrap_or(false)
    }

    /// What the server granted may be handed on within the pool's bounds.
    fn to_be_handed_on(&self, offer: Offer, now: Moment) -> Offer {
        offer.to_be_handed_on(&self.handoff, self.margin, now)
    }

    /// Sends everybody away who waits for anything, or comes later; the tokens that are being cleaned up after.
    pub(super) fn close(&self, error: &LockError, now: Moment) -> Vec<Token> {
        self.lock().queues.closed = Some(error.clone());
        let unowned = |lane: &Lane| self.at(lane, |it| it.send_away(error, now)).flatten();
        self.lanes().iter().filter_map(unowned).collect()
    }
}

impl Gates {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.lock()
    }

    fn locked<'a>(&self, state: &'a mut State, lane: &Lane) -> Option<Locked<'a>> {
        let keyed = state.queues.gates.get_mut(lane)?;
        Some(Locked {
            keyed,
            tokens: &mut state.tokens,
            command_timeout: self.shared.command_timeout,
            begins: None,
        })
    }

    /// What the holder of this position is told of its lease through.
    fn cell(&self, position: &Position, lease: &Lease) -> Arc<LeaseCell> {
        let key = position.claim.key.clone();
        let Shared { home, clock, .. } = *self.shared;
        Arc::new(LeaseCell::new(home, key, clock, lease))
    }

    /// Without a queue.
    fn alone<'a>(&self, state: &'a mut State) -> Client<'a, Waiter, Arc<LeaseCell>> {
        Client {
            queue: None,
            tokens: &mut state.tokens,
            command_timeout: self.shared.command_timeout,
        }
    }

    /// Does something at a queue, if there is one; one that holds nothing for anybody goes.
    pub(super) fn at<T>(
        &self,
        lane: &Lane,
        change: impl FnOnce(&mut Locked<'_>) -> T,
    ) -> Option<T> {
        let mut state = self.lock();
        let mut locked = self.locked(&mut state, lane)?;
        let changed = change(&mut locked);
        let Locked { keyed, begins, .. } = locked;
        let wakes = std::mem::take(&mut keyed.wakes);
        let bell = keyed.take_ring();
        if keyed.is_idle() {
            state.queues.remove(lane);
        }
        let begun = begins.map(|token| self.shared.begins(&mut state, token));
        drop(state);
        wakes.wake();
        if let Some(begun) = begun {
            self.shared.begun(begun);
        }
        if let Some(bell) = bell {
            bell.notify_one();
        }
        Some(changed)
    }

    fn lanes(&self) -> Vec<Lane> {
        self.lock().queues.gates.keys().cloned().collect()
    }
}
