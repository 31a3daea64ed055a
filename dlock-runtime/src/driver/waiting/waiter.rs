//! The future of a call for one lock: in its local queue, from when it enters until it has the lock or
//! stops waiting, or past the queue.
//!
//! About the lock it decides nothing: the machine tells it whether it has it, or must start a
//! leader. When its wait is over, it tries past the queue, and still takes the lock if its turn comes
//! first.
//! Invariant: a waiter that is dropped leaves the queue, *then* drops its acquire; an acquire that
//! was sent for it goes on for the waiters behind it, or is cleaned up after.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::time::Sleep;

use super::CHECK_AT_LEAST_EVERY;
use super::first_acquire::FirstAcquire;
use super::leader::{EndedAcquire, Leader};
use crate::client::local_queue::{Grant, WaiterId};
use crate::client::spec::AcquireSpec;
use crate::client::{JoinedQueue, LeaderEpoch, LookReply, Looked, ReadAnswer};
use crate::driver::acquire::{self, Deadline};
use crate::driver::attempt;
use crate::driver::core::Core;
use crate::driver::guard::LockGuard;
use crate::driver::shared::DriverHost;
use crate::link::command_error::{self, CommandError};
use crate::observe;
use crate::strangers::CallersWaker;
use crate::values::error::LockError;
use crate::values::moment::Moment;

type LastTry<'a> = Pin<Box<dyn Future<Output = TakenLock> + Send + 'a>>;

type TakenLock = Result<(LockGuard, Grant), LockError>;

/// Takes one lock, under which nothing has run yet. It belongs to this process, and its lease was not
/// over when the last poll began.
pub(in crate::driver) struct AcquireFuture<'a> {
    core: &'a Arc<Core>,
    spec: &'a Arc<AcquireSpec>,
    deadline: &'a Deadline,
    /// The runtime in which it began to wait.
    runtime: Handle,
    /// The time of the first poll.
    begins: Option<Moment>,
    /// Its place in the queue, which it enters with its first poll, because the queue keeps a waker.
    waiter_id: Option<WaiterId>,
    /// It waits in no queue.
    is_past: bool,
    /// The first acquire, while this waiter sends it.
    own: Option<Arc<FirstAcquire>>,
    /// It sends the first acquire, and has not been polled since it entered.
    has_just_entered: bool,
    /// As the machine said when it last looked: under one mutex with the waker that it left there.
    sends_itself: bool,
    timer: WaiterTimer,
    /// The tries past the queue, once the wait is over.
    last_try: Option<LastTry<'a>>,
}

impl<'a> AcquireFuture<'a> {
    #[inline]
    pub(in crate::driver) fn new(
        core: &'a Arc<Core>,
        spec: &'a Arc<AcquireSpec>,
        deadline: &'a Deadline,
        (now, may_wait): (Moment, bool),
    ) -> Result<Self, LockError> {
        if core.is_shut() {
            return Err(LockError::ShutDown);
        }
        let runtime = command_error::runtime_with_timers();
        let mut it = Self {
            core,
            spec,
            deadline,
            runtime: runtime.map_err(|error| error.into_error(None))?,
            begins: Some(now),
            waiter_id: None,
            is_past: !may_wait || deadline.is_over(now),
            own: None,
            has_just_entered: false,
            sends_itself: false,
            timer: WaiterTimer(None),
            last_try: None,
        };
        if it.is_past {
            it.goes_past();
        }
        Ok(it)
    }

    #[cold]
    fn goes_past(&mut self) {
        let tries = acquire::past_the_queue(self.core, self.spec, self.deadline);
        self.last_try = Some(Box::pin(tries)); // boxed, because it is seldom needed
    }

    /// Enters the queue. The waker is that of the poll that follows at once.
    fn enter(&mut self, now: Moment, waker: &Waker) -> WaiterId {
        let (core, spec) = (self.core, self.spec);
        let leader = |epoch| Leader::new(core.clone(), spec.clone(), epoch);
        let mut own = None;
        let first = |leader_epoch| {
            let acquire = FirstAcquire::new(leader(leader_epoch), now, &self.runtime);
            own.insert(acquire).clone()
        };
        let JoinedQueue {
            waiter_id,
            lead,
            moved,
        } = core.tell(now, |client, told| {
            client.enter(&spec.queue_key, spec.clone(), waker, told, first)
        });
        if let Some(leader_epoch) = lead {
            leader(leader_epoch).start(&self.runtime);
        }
        if let Some((acquire, sender)) = moved {
            acquire.spawn();
            sender.into_iter().for_each(CallersWaker::wake); // it kept no timer until now
        }
        self.has_just_entered = own.is_some();
        self.sends_itself = own.is_some();
        self.own = own;
        self.waiter_id = Some(waiter_id);
        waiter_id
    }

    /// The lock, once it is this waiter's turn.
    fn turn(&mut self, cx: &mut Context<'_>, now: Moment) -> Poll<TakenLock> {
        loop {
            let waiter_id = self.waiter_id;
            let waiter_id = waiter_id.unwrap_or_else(|| self.enter(now, cx.waker()));
            let mut asked = None;
            let has_just_entered = std::mem::take(&mut self.has_just_entered);
            if let Some(acquire) = &self.own {
                match acquire.poll(cx, &mut asked) {
                    Poll::Ready(()) => self.own = None,
                    // The queue knows its waker, and wakes it if anything changes.
                    Poll::Pending if has_just_entered => return Poll::Pending,
                    Poll::Pending => {}
                }
            }
            let looked = self.look((waiter_id, cx.waker()), now, asked);
            if !matches!(looked, Looked::Wait) {
                self.waiter_id = None;
            }
            return match looked {
                Looked::Wait => Poll::Pending,
                Looked::Yours(grant, cell) => {
                    let times = (self.deadline.begun(), now);
                    let guard = acquire::guard_of(self.core, &grant, cell, times);
                    Poll::Ready(Ok((guard, grant)))
                }
                // The grant came too late for this waiter's ttl: it enters again, behind the others.
                Looked::TooLate => continue,
                Looked::Refused(why) => {
                    Poll::Ready(Err(attempt::refusal(self.core, self.spec, why)))
                }
            };
        }
    }

    /// `asked`: how the first acquire ended, which it has sent.
    #[inline]
    fn look(
        &mut self,
        of: (WaiterId, &Waker),
        now: Moment,
        asked: Option<EndedAcquire>,
    ) -> Looked<DriverHost> {
        let (core, spec) = (self.core, self.spec);
        let look = |read: Option<ReadAnswer<'_, CommandError>>| {
            core.at(&spec.queue_key, now, |queue| queue.look(spec, of, read))
        };
        let Some(mut asked) = asked else {
            let LookReply {
                looked,
                lead,
                sends_itself,
                ..
            } = look(None);
            self.sends_itself = sends_itself && self.own.is_some();
            self.lead(lead);
            return looked;
        };
        self.sends_itself = false;
        let (looked, lead) = asked.tell_as_waiter(now, |read| look(Some(read)));
        if asked.is_led_on() {
            asked.lead_on(&self.runtime);
        }
        self.lead(lead);
        looked
    }

    /// Starts this leader.
    fn lead(&self, lead: Option<LeaderEpoch>) {
        if let Some(leader_epoch) = lead {
            let here = Handle::try_current();
            let here = here.as_ref().unwrap_or(&self.runtime);
            Leader::new(self.core.clone(), self.spec.clone(), leader_epoch).start(here);
        }
    }

    /// Logs that it has waited for so long.
    fn is_slow(&self, now: Moment) {
        let AcquireSpec {
            queue_key,
            key,
            site,
            ..
        } = &**self.spec;
        let (core, waited) = (self.core, self.deadline.begun().until(now));
        let holder = core.at(queue_key, now, |queue| queue.state.shown.0.clone());
        observe::slow_acquire(key.parts(), &site.name(), waited, holder.as_deref());
    }
}

impl Future for AcquireFuture<'_> {
    type Output = TakenLock;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TakenLock> {
        let this = &mut *self;
        let (core, deadline) = (this.core, this.deadline);
        let mut now = if let Some(begins) = this.begins.take() {
            begins
        } else {
            core.check_process()?; // a forked child may poll what its parent began
            core.now()
        };
        loop {
            if !this.is_past
                && let Poll::Ready(taken) = this.turn(cx, now)
            {
                return Poll::Ready(taken);
            }
            if let Some(last_try) = &mut this.last_try {
                return last_try.as_mut().poll(cx);
            }
            // While this waiter sends the first acquire itself, it needs no timer if that attempt's
            // own timeouts end it before the deadline. It may connect, find that the connection is
            // of no use, and connect again.
            let due = deadline.next();
            if this.sends_itself && now.plus(core.settings().one_step() * 2) < due {
                return Poll::Pending;
            }
            let pause = now.until(due).min(CHECK_AT_LEAST_EVERY);
            let (timer, runtime) = (&mut this.timer, &this.runtime);
            let expired = command_error::needs_drivers(|| timer.poll(cx, runtime, pause));
            ready!(expired.map_err(|error| error.into_error(None))?);
            now = core.now();
            if deadline.is_over(now) {
                this.goes_past();
            }
            if deadline.is_slow_now(now) {
                this.is_slow(now);
            }
        }
    }
}

impl Drop for AcquireFuture<'_> {
    fn drop(&mut self) {
        if self.waiter_id.is_none() && self.own.is_none() {
            return;
        }
        if self.core.is_inherited() {
            std::mem::forget(self.own.take());
            return;
        }
        let queue_key = &self.spec.queue_key;
        let others_wait = if let Some(waiter_id) = self.waiter_id {
            let now = self.core.now();
            (self.core).at(queue_key, now, |queue| queue.leave(waiter_id))
        } else {
            (self.core).ask(|client| client.has_waiters(queue_key))
        };
        // Waiters that came meanwhile inherit the acquire that is on its way.
        if let Some(acquire) = self.own.take() {
            if others_wait {
                acquire.spawn();
            } else {
                acquire.give_up();
            }
        }
    }
}

/// A waiter's timer, made when it is first needed. It belongs to the runtime that polls the waiter,
/// which may move: a timer of a runtime that has ended panics, and one of a runtime that nobody
/// drives never expires.
struct WaiterTimer(Option<(runtime::Id, Pin<Box<Sleep>>)>);

impl WaiterTimer {
    /// Ready when `pause` has passed since the first poll after the last expiry. `began`: the
    /// runtime to use if this is polled outside any, or in one without timers.
    fn poll(&mut self, cx: &mut Context<'_>, began: &Handle, pause: Duration) -> Poll<()> {
        let here = command_error::runtime_with_timers();
        let here = here.as_ref().unwrap_or(began);
        if self.0.as_ref().is_none_or(|(id, _)| *id != here.id()) {
            let _inside = here.enter();
            self.0 = Some((here.id(), Box::pin(tokio::time::sleep(pause))));
        }
        if let Some((_, sleep)) = &mut self.0 {
            ready!(sleep.as_mut().poll(cx));
        }
        self.0 = None;
        Poll::Ready(())
    }
}
