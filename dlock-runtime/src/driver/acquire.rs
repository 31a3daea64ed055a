//! Takes one lock: waits in the local queue, and tries once past the queue when the wait is over.
//!
//! Invariant: whatever an attempt may have left on the server has an owner: the local queue, the
//! guard, or the watchdog's clean-up. That holds when this future is dropped at any `await`.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::runtime::{self, Handle};
use tokio::time::Sleep;

use super::attempt::{self, AttemptAnswer, OpenAttempt};
use super::core::Core;
use super::guard::{Hold, LockGuard};
use super::lock_order;
use super::nested::{self, Nested};
use super::waiting::{Taken, Waiter};
use crate::backend::command_error::{self, CommandError};
use crate::client::local_queue::{Attempt, Grant, GrantKind};
use crate::client::spec::AcquireSpec;
use crate::client::{AcquireRefusal, PastLook, PastStep, PastTry};
use crate::policy::commands::Keep;
use crate::values::error::{LockError, Reason};
use crate::values::fence::Fence;
use crate::values::holder::Holder;
use crate::values::listener::AcquireOutcome;
use crate::values::moment::Moment;
use crate::values::wait::Wait;

/// How often a waiter checks that the queue's leader still responds.
const CHECK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// When a call began to wait, and until when it waits.
pub(super) struct Deadline {
    begun: Moment,
    /// `None`: for ever.
    until: Option<Moment>,
    /// From when on the commands that follow the wait share one `command_timeout`.
    over: OnceLock<Moment>,
    /// From when on it is slow; `None`: never.
    slow: Option<Moment>,
    /// It was logged as slow.
    is_slow: AtomicBool,
}

impl Deadline {
    pub(super) fn new(core: &Core, begun: Moment, wait: Wait) -> Self {
        let until = match wait {
            Wait::Once => Some(begun),
            Wait::For(wait) => Some(begun.plus(wait)),
            Wait::Forever => None,
        };
        let slow = core.settings().observing.slow_acquire;
        Self {
            begun,
            until,
            over: OnceLock::new(),
            slow: slow.map(|slow| begun.plus(slow)),
            is_slow: AtomicBool::new(false),
        }
    }

    /// When the call is to be logged as slow, if it was not.
    fn slow(&self) -> Option<Moment> {
        self.slow.filter(|_| !self.is_slow.load(Ordering::Relaxed))
    }

    pub(super) fn begun(&self) -> Moment {
        self.begun
    }

    pub(super) fn is_over(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// Whether so many more tries, of which the last one took so long, can follow one another. While
    /// the call waits they can: it queues.
    pub(super) fn leaves_time_for(
        &self,
        tries: usize,
        took: Duration,
        core: &Core,
        now: Moment,
    ) -> bool {
        let tries = u32::try_from(tries).unwrap_or(u32::MAX);
        !self.is_over(now) || now.plus(took.saturating_mul(tries)) <= self.answered_by(core, now)
    }

    /// How much of the time from `begun` to `now` was spent on a try after the wait.
    pub(super) fn tried_for(&self, begun: Moment, now: Moment) -> Duration {
        self.until
            .map_or(Duration::ZERO, |until| until.max(begun).until(now))
    }

    pub(super) fn busy(
        &self,
        core: &Core,
        spec: &AcquireSpec,
        holder: Holder,
        left: Duration,
    ) -> LockError {
        LockError::Busy {
            key: spec.key.clone(),
            waited: self.begun.until(core.now()),
            holder,
            left,
        }
    }

    /// When a command that is sent now has to be answered: within one `command_timeout`, and within
    /// the one that follows the wait, which all commands share. So a call ends by then, however many
    /// commands it sends: whatever it awaits takes its time from here. If the call stood still past
    /// its wait and nothing was under way, that time begins when it looks again, so that it still
    /// hears who has the lock.
    pub(super) fn answered_by(&self, core: &Core, now: Moment) -> Moment {
        let timeout = core.settings().command_timeout;
        let by = now.plus(timeout);
        match self.until {
            Some(until) if until < by => {
                by.min(self.over.get_or_init(|| until.max(now)).plus(timeout))
            }
            _ => by,
        }
    }
}

pub(crate) async fn acquire(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    begun: Moment,
) -> Result<LockGuard, LockError> {
    let may_wait = match nested::check(core, spec) {
        Nested::Join(guard) => return Ok(guard),
        Nested::WouldDeadlock(outer) => return Err(nested::would_deadlock(spec, &outer)),
        Nested::Acquire => true,
        Nested::AskOnce => false,
    };
    lock_order::check(core, spec)?;
    core.watchdog().revive()?;
    let deadline = Deadline::new(core, begun, spec.wait);
    let mut now = deadline.begun;
    loop {
        let (guard, grant) = take_one(core, spec, &deadline, now, may_wait).await?;
        let begun = if is_short(spec, &grant) {
            // Boxed, so that what waits for a lock stays small.
            Box::pin(begin_confirmed(core, spec, guard, grant, &deadline)).await
        } else {
            begin(spec, guard, &grant)
        };
        match begun {
            Ok(guard) => return Ok(guard),
            // No body has run under the lost lock, so the call goes on waiting while time is left.
            Err(error) => {
                now = core.now();
                if !error.may_pass() || deadline.is_over(now) {
                    return Err(core.error(error, Some(&spec.key)));
                }
            }
        }
    }
}

/// Takes one lock, under which nothing has run yet. It belongs to this process, and its lease was
/// not over when this poll began.
pub(super) async fn take_one(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    deadline: &Deadline,
    now: Moment,
    may_wait: bool,
) -> Result<(LockGuard, Grant), LockError> {
    if core.is_shut() {
        return Err(LockError::ShutDown);
    }
    if may_wait && !deadline.is_over(now) {
        return in_queue(core, spec, deadline, now).await;
    }
    command_error::runtime_with_timers().map_err(|error| error.into_error(None))?;
    Box::pin(past_the_queue(core, spec, deadline)).await
}

/// Waits in the local queue; when the wait is over, tries once past the queue.
async fn in_queue(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    deadline: &Deadline,
    now: Moment,
) -> Result<(LockGuard, Grant), LockError> {
    let Deadline { begun, until, .. } = *deadline;
    let clock = core.backend().clock();
    let here = command_error::runtime_with_timers().map_err(|error| error.into_error(None))?;
    let here = &here;
    let pause = |now: Moment| {
        let rest = |until: Option<Moment>| until.map_or(Duration::MAX, |it| now.until(it));
        rest(until)
            .min(rest(deadline.slow()))
            .min(CHECK_AT_LEAST_EVERY)
    };
    let mut timer = WaiterTimer(None);
    // An attempt may connect, find that the connection is of no use, and connect again.
    let attempt = core.settings().one_step() * 2;
    let mut waiter = None; // joins at the first poll, whose waker the queue keeps
    let mut last_try = None; // boxed when it is needed, which is seldom
    let mut is_over = false;
    let mut begins = Some(now);
    std::future::poll_fn(move |cx| {
        loop {
            let now = if let Some(begins) = begins.take() {
                begins
            } else {
                core.check_process()?; // a forked child may poll what its parent began
                clock.now()
            };
            let joins = |waker| Waiter::new(core, spec, here, now, waker);
            let waiter = waiter.get_or_insert_with(|| joins(cx.waker()));
            while let Poll::Ready(turn) = waiter.poll(cx, now) {
                if let Some(taken) = turn? {
                    let grant = taken.grant;
                    let guard = guard_of(core, taken, (begun, now));
                    return Poll::Ready(Ok((guard, grant)));
                }
                // The grant came too late for this waiter's ttl: it queues again, behind the
                // others.
                *waiter = joins(cx.waker());
            }
            if is_over {
                let try_once_more = || Box::pin(past_the_queue(core, spec, deadline));
                return last_try.get_or_insert_with(try_once_more).as_mut().poll(cx);
            }
            // While this waiter sends the first acquire itself, it needs no timer if that attempt's
            // own timeouts end it before the deadline.
            let is_later = |due: Option<Moment>| due.is_none_or(|due| now.plus(attempt) < due);
            if waiter.sends_itself() && is_later(until) && is_later(deadline.slow()) {
                return Poll::Pending;
            }
            let expired = command_error::needs_drivers(|| timer.poll(cx, here, pause(now)));
            ready!(expired.map_err(|error| error.into_error(None))?);
            let now = clock.now();
            is_over = until.is_some_and(|until| now >= until);
            if deadline.slow().is_some_and(|slow| now >= slow) {
                deadline.is_slow.store(true, Ordering::Relaxed);
                waiter.is_slow(begun.until(now));
            }
        }
    })
    .await
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

/// Turns a lock that was granted outside the queue into a guard; `None` if its lease is over
/// already.
pub(super) fn take(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    attempt: Attempt,
    grant: Grant,
    begun: Moment,
) -> Option<LockGuard> {
    let now = core.now();
    let cell = core.tell(now, |client, at| {
        client.take_alone(spec, attempt, &grant, at)
    })?;
    Some(guard_of(core, Taken { grant, cell }, (begun, now)))
}

/// `begun`: when the call began to wait for it.
fn guard_of(
    core: &Arc<Core>,
    Taken { grant, cell }: Taken,
    (begun, granted): (Moment, Moment),
) -> LockGuard {
    core.watchdog().watch(&cell);
    core.backend().epoch_given(grant.epoch);
    let fence = Fence::new(grant.epoch, grant.chain.index);
    let hold = Hold {
        core: core.clone(),
        fence,
        cell,
        begun,
        granted,
        outcome: outcome_of(&grant),
    };
    LockGuard::new(hold)
}

fn outcome_of(grant: &Grant) -> AcquireOutcome {
    match grant.how {
        _ if grant.chain.index > 0 => AcquireOutcome::HandedOn,
        GrantKind::AtOnce => AcquireOutcome::AtOnce,
        GrantKind::InTurn => AcquireOutcome::InTurn,
    }
}

/// Confirms the lease before the body of one lock begins. If it is dropped or fails, the key is not
/// kept for `min_hold`.
async fn begin_confirmed(
    core: &Arc<Core>,
    spec: &AcquireSpec,
    guard: LockGuard,
    grant: Grant,
    deadline: &Deadline,
) -> Result<LockGuard, CommandError> {
    let now = core.now();
    let within = now.until(deadline.answered_by(core, now));
    if !guard.confirm(&spec.terms, within).await? {
        return Err(lost_before_its_body());
    }
    begin(spec, guard, &grant)
}

/// The body of one lock may begin, unless the lock is lost by now.
fn begin(spec: &AcquireSpec, guard: LockGuard, grant: &Grant) -> Result<LockGuard, CommandError> {
    if keep_for_min_hold(spec, &guard, grant) {
        Ok(guard)
    } else {
        Err(lost_before_its_body())
    }
}

/// With `min_hold`, the server has to promise the whole lease before the body begins
/// (docs/inside/protocol.md, Bounds of a hold). Returns whether it has not promised that yet.
pub(super) fn is_short(spec: &AcquireSpec, grant: &Grant) -> bool {
    spec.terms.bounds.min_hold.is_some()
        && (grant.how == GrantKind::InTurn || grant.lease < spec.terms.lease().get())
}

/// Keeps the key for its `min_hold` from here on; `false` if the lease is lost.
pub(super) fn keep_for_min_hold(spec: &AcquireSpec, guard: &LockGuard, grant: &Grant) -> bool {
    let Some(min_hold) = spec.terms.bounds.min_hold else {
        return true;
    };
    guard.keep(Keep::from(grant.time, min_hold))
}

pub(super) fn lost_before_its_body() -> CommandError {
    CommandError::Unsent(Reason::new("the lock was lost before its body could begin"))
}

/// Tries without queueing: it comes behind all waiters, and is busy if there are any.
async fn past_the_queue(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    deadline: &Deadline,
) -> Result<(LockGuard, Grant), LockError> {
    let begun = deadline.begun;
    let mut tries = PastTry::new(deadline.answered_by(core, core.now()));
    let why = 'again: loop {
        let asked = try_once(core, spec, tries.until).await;
        core.check_process()?; // a forked child may poll what its parent began
        let (attempt, answer) = match asked {
            Ok((attempt, answer)) => (Some(attempt), answer),
            Err(error) => (None, Err(attempt::fault(error))),
        };
        let busy = match tries.answered(answer) {
            PastStep::Take(grant) => {
                let taken = attempt.and_then(|it| take(core, spec, it, grant, begun));
                match taken {
                    Some(guard) => return Ok((guard, grant)),
                    None => break AcquireRefusal::LeaseOver,
                }
            }
            PastStep::Again => continue,
            PastStep::Look(busy) => busy,
            PastStep::Refused(why) => break why,
            PastStep::OwnEnd(error) => {
                let own = attempt::own_end(core, spec, begun);
                break own.unwrap_or(AcquireRefusal::Server(error));
            }
        };
        loop {
            match tries.look(&busy, attempt::standing(core, &busy), core.now()) {
                PastLook::Busy { holder, left } => {
                    return Err(deadline.busy(core, spec, holder, left));
                }
                PastLook::Refused(why) => break 'again why,
                PastLook::OwnEnd => {
                    let own = attempt::own_end(core, spec, begun);
                    break 'again own.unwrap_or(AcquireRefusal::Unsettled);
                }
                PastLook::Rest { pause, asks } => {
                    if pause.is_zero() {
                        // Its owner may have its answer, and not have read it.
                        tokio::task::yield_now().await;
                    } else {
                        tokio::time::sleep(pause).await;
                    }
                    core.check_process()?;
                    if asks {
                        break;
                    }
                }
            }
        }
    };
    Err(attempt::refusal(core, spec, why))
}

/// One attempt; `until` bounds connecting and sending. The error: nothing was sent.
async fn try_once(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    until: Moment,
) -> Result<(Attempt, AttemptAnswer), CommandError> {
    let (link, when @ (_, within)) = attempt::link_until(core, spec, until).await?;
    let sent = attempt::prepare(core, spec, &link, false, when);
    let open = OpenAttempt::alone(core, sent, link);
    let answer = open.link.acquire(&open.sent.command, within).await;
    let answer = open.landed(answer);
    let attempt = open.sent.attempt();
    open.settle_alone(&answer);
    Ok((attempt, answer))
}
