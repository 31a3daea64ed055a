//! One waiter: a seat in line, from when it is taken until the lock is had or the wait is over.
//!
//! Invariant: a seat that is dropped leaves the line, and what was sent on its behalf goes on for those
//! behind it, or is cleaned up after.

use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::runtime::Handle;

use super::driver::Driver;
use super::first_ask::FirstAsk;
use crate::engine::core::Core;
use crate::engine::local_queues::{Entered, FirstAttempt as _, Sight, Taken};
use crate::engine::order::Order;
use crate::policy::gate::Seat;
use crate::values::error::LockError;
use crate::values::moment::Moment;

pub(in crate::engine) struct Ticket {
    core: Arc<Core>,
    order: Arc<Order>,
    seat: Seat,
    /// Where it began to wait.
    runtime: Handle,
    /// The first acquire, while this waiter sends it.
    own: Option<Arc<FirstAsk>>,
    /// The seat is gone, and may be somebody else's by now: a gate that nobody needs forgets its numbers.
    done: bool,
}

impl Ticket {
    /// Takes a seat.
    pub(in crate::engine) fn new(
        core: &Arc<Core>,
        order: &Arc<Order>,
        runtime: &Handle,
        now: Moment,
    ) -> Self {
        let lane = &order.lane;
        let Entered {
            seat,
            wheel,
            first_ask,
        } = core.gates().enter(order.clone(), now);
        let own = wheel.map(|wheel| {
            let driver = Driver::new(core.clone(), lane.clone(), wheel);
            let ask = FirstAsk::new(driver, now, runtime);
            core.gates().first_asks(lane, ask.clone());
            ask
        });
        if let Some(ask) = first_ask {
            ask.spawn();
        }
        Self {
            core: core.clone(),
            order: order.clone(),
            seat,
            runtime: runtime.clone(),
            own,
            done: false,
        }
    }

    /// The lock, once it is this waiter's turn; `None`: too late for its ttl, and it may come again behind the others.
    /// Afterwards the seat is gone, and this is not to be polled.
    pub(in crate::engine) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
    ) -> Poll<Result<Option<Taken>, LockError>> {
        let mut driver = None;
        if let Some(ask) = &self.own
            && let Poll::Ready(has_done) = ask.poll(cx)
        {
            (self.own, driver) = (None, has_done);
        }
        self.look(cx, now, driver)
    }

    /// It sends the first acquire itself, and is woken if that goes to a task of its own: until then it has no driver to look after.
    pub(in crate::engine) fn sends_itself(&self) -> bool {
        self.own.is_some()
    }

    /// `driver`: it has sent the first acquire.
    fn look(
        &mut self,
        cx: &mut Context<'_>,
        now: Moment,
        mut driver: Option<Driver>,
    ) -> Poll<Result<Option<Taken>, LockError>> {
        let (core, lane) = (&self.core, &self.order.lane);
        let answered = driver.as_mut().map(Driver::answered);
        let (sight, beside) =
            (core.gates()).look(&self.order, self.seat, now, cx.waker(), answered);
        for unowned in beside.unowned {
            core.see_to(unowned);
        }
        match driver {
            Some(driver) if beside.is_dismissed => driver.dismiss(),
            Some(driver) => driver.go_on(&self.runtime),
            None => {}
        }
        if beside.is_crowded
            && let Some(ask) = self.own.take()
        {
            ask.spawn();
        }
        match sight {
            Sight::Wait => Poll::Pending,
            Sight::Drive(wheel) => {
                let here = Handle::try_current();
                let here = here.as_ref().unwrap_or(&self.runtime);
                Driver::new(core.clone(), lane.clone(), wheel).go_on(here);
                Poll::Pending
            }
            Sight::Yours(taken) => {
                self.done = true;
                Poll::Ready(Ok(Some(taken)))
            }
            Sight::TooLate => {
                self.done = true;
                Poll::Ready(Ok(None))
            }
            Sight::SentAway(error) => {
                self.done = true;
                Poll::Ready(Err(error))
            }
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.done && self.own.is_none() {
            return;
        }
        if self.core.is_inherited() {
            std::mem::forget(self.own.take());
            return;
        }
        let lane = &self.order.lane;
        if !self.done {
            let now = self.core.now();
            self.core
                .see_to(self.core.gates().leave(lane, self.seat, now));
        }
        // Whoever came meanwhile inherits the acquire that is on its way.
        if let Some(ask) = self.own.take() {
            if self.core.gates().is_waited_at(lane) {
                ask.spawn();
            } else {
                ask.give_up();
            }
        }
    }
}
