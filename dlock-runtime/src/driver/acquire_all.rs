//! Takes several locks: all of them, or none.
//!
//! Where all are free, one command takes them all. Otherwise they are taken one after the other in
//! the order of their names, which is the same for every caller: two callers that want the same
//! locks never each hold what the other waits for. Locks that are held already are kept alive while
//! the next one is waited for, and given back if that fails. Once the wait is over nothing is waited
//! for, so what one after the other would not be answered in time is asked for together.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dlock_grammar::kind::KindError;

use super::acquire::{self, Deadline};
use super::attempt::{self, OpenAttempt};
use super::core::Core;
use super::guard::LockGuard;
use super::lock_order;
use super::nested::{self, Nested};
use super::waiting::AcquireFuture;
use crate::client::local_queue::Grant;
use crate::client::spec::AcquireSpec;
use crate::client::{SeveralTry, SeveralTurn};
use crate::link::command_error::{self, CommandError};
use crate::link::joined::all;
use crate::rules::commands::{Acquire, Keep};
use crate::values::error::{LockError, Reason};
use crate::values::kind::Kind;
use crate::values::moment::Moment;

/// A lock that is held already. Its grant is `None` if the calling body held the lock before and
/// joined it.
type One = (LockGuard, Option<Grant>);
type HeldParts = Vec<One>;

/// `specs`: sorted by key, each key once, `first` before all.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    first: &Arc<AcquireSpec>,
    specs: &[Arc<AcquireSpec>],
    begun: Moment,
) -> Result<LockGuard, LockError> {
    if specs.len() == 1 {
        return acquire::acquire(core, first, begun).await;
    }
    command_error::runtime_with_timers().map_err(|error| error.into_error(None))?;
    let nested: Vec<Nested> = specs.iter().map(|it| nested::check(core, it)).collect();
    for (spec, nested) in specs.iter().zip(&nested) {
        if let Nested::WouldDeadlock(outer) = nested {
            return Err(nested::would_deadlock(spec, outer));
        }
    }
    if nested.iter().all(|it| matches!(it, Nested::Join(_))) {
        return join_all(core, nested);
    }
    // A joined lock is not waited for, so its order does not matter.
    let mut asked = specs.iter().zip(nested);
    asked.try_for_each(|(spec, nested)| match nested {
        Nested::Acquire | Nested::AskOnce => lock_order::check(core, spec),
        Nested::Join(_) | Nested::WouldDeadlock(_) => Ok(()),
    })?;
    core.watchdog().revive()?;
    let deadline = Deadline::new(core, begun, first.wait);
    loop {
        if core.is_shut() {
            return Err(LockError::ShutDown);
        }
        let error = match in_order(core, specs, &deadline).await? {
            Ok(guard) => return Ok(guard),
            Err(error) => error,
        };
        if core.is_shut() {
            return Err(LockError::ShutDown);
        }
        // No body has run under them, so the call goes on waiting while time is left.
        if !error.may_pass() || deadline.is_over(core.now()) {
            return Err(core.error(error, Some(&first.key)));
        }
    }
}

/// The enclosing bodies hold all of them: nothing is asked for, even while the pool is being shut down.
fn join_all(core: &Core, nested: Vec<Nested>) -> Result<LockGuard, LockError> {
    let joined = nested.into_iter().filter_map(|it| match it {
        Nested::Join(guard) => Some(guard),
        _ => None,
    });
    let guard = LockGuard::of_all(joined.collect());
    guard.ok_or_else(|| core.error(no_keys(), None))
}

fn no_keys() -> CommandError {
    CommandError::Setup(Reason::new(KindError::NoKeys))
}

/// How the command for all keys went.
enum AtOnce {
    Taken(HeldParts),
    /// Nothing was taken.
    Not(SeveralTurn<CommandError>),
}

/// Takes all in one command if each is free and has no waiters.
async fn at_once(
    core: &Arc<Core>,
    specs: &[Arc<AcquireSpec>],
    deadline: &Deadline,
    (until, is_second): (Moment, bool),
) -> Result<AtOnce, LockError> {
    let one_by_one = AtOnce::Not(SeveralTurn::OneByOne);
    let alone =
        |spec: &Arc<AcquireSpec>| spec.kind == Kind::Exclusive && spec.queue_key.is_for_all();
    let (true, Some(first)) = (specs.iter().all(alone), specs.first()) else {
        return Ok(one_by_one);
    };
    let mut names = specs.iter().map(|it| &**it.name());
    if !core.backend().in_one_step(&mut names) {
        return Ok(one_by_one);
    }
    let (open, answer) = match attempt::link_until(core, first, until).await {
        Err(error) => (Vec::new(), Err(error)),
        Ok((link, when @ (_, within))) => {
            let open = |spec: &Arc<AcquireSpec>| {
                let sent = attempt::prepare(core, spec, &link, false, when);
                OpenAttempt::alone(core, sent, link.clone())
            };
            let open: Result<Vec<OpenAttempt>, _> = specs.iter().map(open).collect();
            let open = open?;
            let commands: Vec<Acquire> = open.iter().map(|it| it.sent.command.clone()).collect();
            let answer = link.acquire_all(&commands, within).await;
            (open, answer)
        }
    };
    core.check_process()?; // a forked child may poll what its parent began
    let now = core.now();
    let tried = SeveralTry {
        is_over: deadline.is_over(now),
        is_second,
    };
    let sent = open.iter().map(|it| &it.sent);
    let answer = answer.map_err(attempt::fault);
    let (turn, is_open) = core.ask(|client| client.several_answered(sent, answer, tried, now));
    let grants = match turn {
        SeveralTurn::Take(grants) => grants,
        turn => {
            if !is_open {
                open.into_iter().for_each(OpenAttempt::created_nothing);
            } // otherwise its drop cleans up
            return Ok(AtOnce::Not(turn));
        }
    };
    let each = specs.iter().zip(open).zip(grants);
    let each = each.map(|((spec, mut open), grant)| {
        open.settle(false);
        let (had_at, token) = (core.now(), open.sent.token);
        let cell = core.tell(had_at, |client, told| {
            client.take_alone(spec, token, &grant, told)
        })?;
        let guard = acquire::guard_of(core, &grant, cell, (deadline.begun(), had_at));
        Some((guard, Some(grant)))
    });
    // Take every one before looking at failures: a guard that is dropped gives its lock back.
    let each: Vec<Option<One>> = each.collect();
    let held: Option<HeldParts> = each.into_iter().collect();
    let not_taken = || AtOnce::Not(core.ask(|client| client.several_not_taken(tried)));
    Ok(held.map_or_else(not_taken, AtOnce::Taken))
}

/// The inner error: everything was given back, and the call may try again.
async fn in_order(
    core: &Arc<Core>,
    specs: &[Arc<AcquireSpec>],
    deadline: &Deadline,
) -> Result<Result<LockGuard, CommandError>, LockError> {
    let begun = core.now();
    let until = deadline.answered_by(core, begun); // of both tries together
    let mut taken = at_once(core, specs, deadline, (until, false)).await?;
    if let AtOnce::Not(SeveralTurn::Again) = taken {
        taken = at_once(core, specs, deadline, (until, true)).await?;
    }
    match taken {
        AtOnce::Taken(held) => return Ok(begin(core, specs, deadline, begun, held).await),
        AtOnce::Not(SeveralTurn::Busy { at, holder, left }) => {
            if let Some(spec) = specs.get(at) {
                return Err(deadline.busy(core, spec, holder, left));
            }
        }
        AtOnce::Not(SeveralTurn::Refused(why)) => {
            let first = specs
                .first()
                .and_then(|first| attempt::in_words(first, why));
            return first.map_or(Err(LockError::ShutDown), |error| Ok(Err(error)));
        }
        AtOnce::Not(_) => {}
    }
    let held = match one_by_one(core, specs, deadline, begun.until(core.now())).await? {
        Ok(held) => held,
        Err(error) => return Ok(Err(error)),
    };
    Ok(begin(core, specs, deadline, begun, held).await)
}

/// Takes one after the other. `took`: how long the last command took.
async fn one_by_one(
    core: &Arc<Core>,
    specs: &[Arc<AcquireSpec>],
    deadline: &Deadline,
    mut took: Duration,
) -> Result<Result<HeldParts, CommandError>, LockError> {
    let (mut held, mut keep_at) = (HeldParts::new(), Moment::NEVER);
    while let Some((spec, others)) = specs.get(held.len()..).and_then(<[_]>::split_first) {
        let now = core.now();
        if held.is_empty() {
            keep_at = now.plus(third_of(spec));
        }
        if !deadline.leaves_time_for(1 + others.len(), took, core, now) {
            let together = specs
                .iter()
                .skip(held.len())
                .map(|spec| Box::pin(ask(core, spec, deadline, now)));
            for one in all(together.collect()).await {
                held.push(one?);
            }
            break;
        }
        let mut next = pin!(ask(core, spec, deadline, now));
        held.push(loop {
            let pause = core.now().until(keep_at);
            if pause.is_zero() {
                keep_at = core.now().plus(third_of(spec));
                if let Err(error) = keep(core, spec, deadline, &held).await {
                    return Ok(Err(error));
                }
                continue;
            }
            if let Ok(taken) = tokio::time::timeout(pause, next.as_mut()).await {
                break taken?;
            }
        });
        took = deadline.tried_for(now, core.now());
    }
    Ok(Ok(held))
}

fn third_of(spec: &AcquireSpec) -> Duration {
    spec.terms.ttl.get() / 3
}

/// Takes one of them, or joins the enclosing body's lock.
async fn ask(
    core: &Arc<Core>,
    spec: &Arc<AcquireSpec>,
    deadline: &Deadline,
    now: Moment,
) -> Result<One, LockError> {
    let may_wait = match nested::check(core, spec) {
        Nested::Join(guard) => return Ok((guard, None)),
        nested => !matches!(nested, Nested::AskOnce),
    };
    let take = AcquireFuture::new(core, spec, deadline, (now, may_wait))?;
    let (guard, grant) = take.await?;
    Ok((guard, Some(grant)))
}

/// Extends what is held so that it lasts while the next lock is waited for.
async fn keep(
    core: &Arc<Core>,
    spec: &AcquireSpec,
    deadline: &Deadline,
    held: &[One],
) -> Result<(), CommandError> {
    let ours: Vec<&LockGuard> = held
        .iter()
        .map(|(guard, _)| guard)
        .filter(|guard| !guard.is_joined())
        .collect();
    let by = deadline.answered_by(core, core.now());
    if LockGuard::confirm_all(&ours, &spec.terms, by).await? && !core.is_shut() {
        Ok(())
    } else {
        Err(acquire::lost_before_its_body())
    }
}

/// All are held. Makes each last its whole ttl from now on, and keeps its key for its `min_hold`.
async fn begin(
    core: &Arc<Core>,
    specs: &[Arc<AcquireSpec>],
    deadline: &Deadline,
    begun: Moment,
    held: HeldParts,
) -> Result<LockGuard, CommandError> {
    let is_short = |(spec, (_, grant)): (&Arc<AcquireSpec>, &One)| {
        grant.is_some_and(|grant| acquire::is_short(spec, &grant))
    };
    if let Some(first) = specs.first()
        && (begun.until(core.now()) > first.terms.ttl.get() / 10
            || specs.iter().zip(&held).any(is_short))
    {
        keep(core, first, deadline, &held).await?;
    }
    // No `await` from here on, so that no key is kept for a body that never began.
    let kept = specs.iter().zip(&held).all(|(spec, (guard, grant))| {
        grant.is_none_or(|grant| acquire::keep_what_stays(spec, guard, &grant))
    });
    if !kept {
        for (guard, _) in &held {
            guard.keep(Keep::NOT);
        }
        return Err(acquire::lost_before_its_body());
    }
    let guards = held.into_iter().map(|(guard, _)| guard).collect();
    let guard = LockGuard::of_all(guards);
    let guard = guard.ok_or_else(no_keys)?;
    // One may have been lost while another was waited for; and the outer body may have lost a
    // joined one.
    if guard.check().is_err() {
        return Err(acquire::lost_before_its_body());
    }
    Ok(guard)
}
