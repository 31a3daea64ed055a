//! Takes one lock: waits in the local queue, and tries once past the queue when the wait is over.
//!
//! Invariant: whatever an attempt may have left on the server has an owner: the local queue, the
//! guard, or the watchdog's clean-up. That holds when this future is dropped at any `await`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::attempt::{self, OpenAttempt};
use super::core::Core;
use super::guard::{Hold, LockGuard};
use super::lease_cell::LeaseCell;
use super::lock_order;
use super::nested::{self, Nested};
use super::shared::DriverHost;
use super::waiting::AcquireFuture;
use crate::client::local_queue::{Grant, GrantKind};
use crate::client::spec::AcquireSpec;
use crate::client::{PastTry, PastTurn};
use crate::link::command_error::CommandError;
use crate::rules::commands::{Keep, RunNote, RunOutcome};
use crate::values::bounds::OncePer;
use crate::values::error::{LockError, Reason};
use crate::values::fence::Fence;
use crate::values::holder::Holder;
use crate::values::listener::AcquireOutcome;
use crate::values::moment::Moment;
use crate::values::wait::Wait;

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

    /// When a call that waits must do something by itself next, if it ever must.
    pub(super) fn next(&self) -> Moment {
        let slow = self.slow.filter(|_| !self.is_slow.load(Ordering::Relaxed));
        let at = |due: Option<Moment>| due.unwrap_or(Moment::NEVER);
        at(self.until).min(at(slow))
    }

    /// Whether the call must be logged as slow now; only once.
    pub(super) fn is_slow_now(&self, now: Moment) -> bool {
        let is_slow = self.slow.is_some_and(|slow| now >= slow);
        is_slow && !self.is_slow.swap(true, Ordering::Relaxed)
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

    /// When a command that is sent now must be answered: within one `command_timeout`, and within
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
        let take = AcquireFuture::new(core, spec, &deadline, (now, may_wait))?;
        let (guard, grant) = take.await?;
        let begun = if is_short(spec, &grant) || runs_at_most_once(spec) {
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
                if core.is_shut() {
                    return Err(LockError::ShutDown);
                }
                if !error.may_pass() || deadline.is_over(now) {
                    return Err(core.error(error, Some(&spec.key)));
                }
            }
        }
    }
}

/// A lock that was granted. `times`: when the call began to wait for it, and when it had it.
pub(super) fn guard_of(
    core: &Arc<Core>,
    grant: &Grant,
    cell: Arc<LeaseCell>,
    (begun, granted): (Moment, Moment),
) -> LockGuard {
    core.watchdog().watch(&cell);
    core.backend().epoch_given(grant.epoch);
    LockGuard::new(Hold {
        core: core.clone(),
        fence: Fence::new(grant.epoch, grant.chain.index),
        cell,
        begun,
        granted,
        outcome: outcome_of(grant),
    })
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
    let is_confirmed = !is_short(spec, &grant) || guard.confirm(&spec.terms, within).await?;
    if !is_confirmed || core.is_shut() {
        return Err(lost_before_its_body());
    }
    if !runs_at_most_once(spec) {
        return begin(spec, guard, &grant);
    }
    let guard = begin(spec, guard, &grant)?;
    let within = core.now().until(now.plus(within));
    // Until it is recorded, its release takes back what may be; then a crash leaves it.
    guard.run_ended(RunOutcome::Failed);
    let is_noted = guard.note_run(run_of(&grant), within).await?;
    if is_noted && guard.run_ended(RunOutcome::Unknown) {
        Ok(guard)
    } else {
        Err(lost_before_its_body())
    }
}

/// Whether the run is recorded before its body.
fn runs_at_most_once(spec: &AcquireSpec) -> bool {
    (spec.terms.bounds.once_per).is_some_and(OncePer::is_at_most_once)
}

fn run_of(grant: &Grant) -> RunNote {
    RunNote::begun(grant.time, grant.epoch)
}

/// The body of one lock may begin, unless the lock is lost by now.
fn begin(spec: &AcquireSpec, guard: LockGuard, grant: &Grant) -> Result<LockGuard, CommandError> {
    if keep_what_stays(spec, &guard, grant) {
        Ok(guard)
    } else {
        Err(lost_before_its_body())
    }
}

/// With `min_hold`, the server must promise the whole lease before the body begins
/// (docs/inside/protocol.md, Bounds of a hold). Returns whether it has not promised that yet.
pub(super) fn is_short(spec: &AcquireSpec, grant: &Grant) -> bool {
    spec.terms.bounds.min_hold.is_some()
        && (grant.how == GrantKind::InTurn || grant.lease < spec.terms.lease().get())
}

/// Keeps the key for its `min_hold` from here on, and notes when a run began that is once per period;
/// `false` if the lease is lost.
pub(super) fn keep_what_stays(spec: &AcquireSpec, guard: &LockGuard, grant: &Grant) -> bool {
    let bounds = &spec.terms.bounds;
    let keep = bounds.min_hold.map(|it| Keep::from(grant.time, it));
    let keep = match bounds.once_per {
        Some(_) => Some(keep.unwrap_or(Keep::NOT).with(run_of(grant))),
        None => keep,
    };
    keep.is_none_or(|keep| guard.keep(keep))
}

pub(super) fn lost_before_its_body() -> CommandError {
    CommandError::Unsent(Reason::new("the lock was lost before its body could begin"))
}

/// Tries without queueing: it comes behind all waiters, and is busy if there are any.
pub(super) async fn past_the_queue(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    deadline: &Deadline,
) -> Result<(LockGuard, Grant), LockError> {
    let begun = deadline.begun;
    let mut tries = PastTry::new(begun, deadline.answered_by(core, core.now()));
    let mut turn = PastTurn::Ask;
    loop {
        turn = match turn {
            PastTurn::Ask => try_once(core, spec, &mut tries).await?,
            PastTurn::Rest(pause) => {
                if pause.is_zero() {
                    // Its owner may have its answer, and not have read it.
                    tokio::task::yield_now().await;
                } else {
                    tokio::time::sleep(pause).await;
                }
                core.check_process()?; // a forked child may poll what its parent began
                let now = core.now();
                core.ask(|client| client.past_rested(&mut tries, &spec.queue_key, now))
            }
            PastTurn::Held(grant, cell) => {
                let guard = guard_of(core, &grant, cell, (begun, core.now()));
                return Ok((guard, grant));
            }
            PastTurn::Busy { holder, left } => return Err(deadline.busy(core, spec, holder, left)),
            PastTurn::Refused(why) => return Err(attempt::refusal(core, spec, why)),
        };
    }
}

/// One attempt.
async fn try_once(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    tries: &mut PastTry,
) -> Result<PastTurn<DriverHost>, LockError> {
    let connected = attempt::link_until(core, spec, tries.until).await;
    let (open, answer) = match connected {
        Ok((link, when @ (_, within))) => {
            let sent = attempt::prepare(core, spec, &link, false, when);
            let open = OpenAttempt::alone(core, sent, link)?;
            let answer = open.link.acquire(&open.sent.command, within).await;
            let answer = open.landed(answer);
            (Some(open), answer)
        }
        Err(error) => (None, Err(attempt::fault(error))),
    };
    core.check_process()?; // a forked child may poll what its parent began
    let now = core.now();
    let follows = open
        .as_ref()
        .and_then(|open| open.heard(&answer, now).follows);
    let sent = (open.as_ref().map(|open| &open.sent), answer);
    let (turn, cancels_behind) = core.tell(now, |client, told| {
        client.past_answered(tries, (&spec.queue_key, spec), sent, follows, told)
    });
    if let Some(mut open) = open {
        open.settle(cancels_behind);
    }
    Ok(turn)
}
