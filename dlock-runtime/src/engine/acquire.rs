//! Taking one lock: in line with those who wait here, and once past the line when the wait is over.
//!
//! Invariant: whatever an attempt may have left on the server has an owner: the gate, the guard, or the
//! guardian's clean-up. That holds when this future is dropped at any `await`.

use std::borrow::Cow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use tokio::time::Instant;

use super::attempt::{self, InTheWay, OpenAttempt, Sent};
use super::guard::{Hold, LockGuard};
use super::lease_cell::LeaseCell;
use super::lock_order;
use super::nested::{self, Nested};
use super::pool::LockPool;
use super::waiting::{Lane, Ticket};
use crate::backend::fault::{self, Fault};
use crate::policy::commands::Acquired;
use crate::policy::gate::{Granted, Offer, Position};
use crate::policy::lease::{Lease, Terms};
use crate::values::class::Site;
use crate::values::error::{LockError, Text};
use crate::values::fence::Fence;
use crate::values::key::Key;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::release::Release;
use crate::values::wait::Wait;

/// A waiter looks this often whether whoever drives the waiting is still there.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// A lock to take.
#[derive(Debug)]
pub(crate) struct Order {
    /// With the pool's namespace.
    pub(crate) key: Key,
    /// The key once more, as commands carry it.
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    pub(crate) lane: Lane,
    /// Joins what an enclosing scope holds.
    pub(crate) reentrant: bool,
    pub(crate) terms: Terms,
    pub(crate) wait: Wait,
    pub(crate) release: Release,
    /// Who asks, for others to read.
    pub(crate) function: Cow<'static, str>,
    pub(crate) site: Site,
}

/// How long a call waits.
pub(super) struct Patience {
    begun: Moment,
    /// `None`: for ever.
    until: Option<Moment>,
}

impl Patience {
    pub(super) fn begins(pool: &LockPool, wait: Wait) -> Self {
        let begun = now(pool);
        let until = match wait {
            Wait::Once => Some(begun),
            Wait::For(wait) => Some(begun.plus(wait)),
            Wait::Forever => None,
        };
        Self { begun, until }
    }

    pub(super) fn is_over(&self, pool: &LockPool) -> bool {
        self.until.is_some_and(|until| now(pool) >= until)
    }
}

pub(crate) async fn acquire(pool: &LockPool, order: &Arc<Order>) -> Result<LockGuard, LockError> {
    match nested::look(pool, order) {
        Nested::Join(guard) => return Ok(guard),
        Nested::WouldDeadlock(outer) => return Err(nested::would_deadlock(order, &outer)),
        Nested::Ask => {}
    }
    lock_order::check(pool, order)?;
    pool.guardian().revive()?;
    let patience = Patience::begins(pool, order.wait);
    loop {
        let (guard, offer) = take_one(pool, order, &patience).await?;
        match begin(pool, order, guard, offer, &patience).await {
            Ok(guard) => return Ok(guard),
            // Nobody has used it, so the wait goes on, if there is any left.
            Err(fault) if fault.may_pass() && !patience.is_over(pool) => {}
            Err(fault) => return Err(fault.into_error(Some(&order.key))),
        }
    }
}

/// One lock, which nothing has begun under.
pub(super) async fn take_one(
    pool: &LockPool,
    order: &Arc<Order>,
    patience: &Patience,
) -> Result<(LockGuard, Offer), LockError> {
    if pool.is_shut() {
        return Err(LockError::ShutDown);
    }
    let Patience { begun, until } = *patience;
    match order.wait {
        Wait::Once => {
            fault::check_timers().map_err(|fault| fault.into_error(None))?;
            Box::pin(past_the_line(pool, order, begun)).await
        }
        Wait::For(_) | Wait::Forever => in_line(pool, order, begun, until).await,
    }
}

/// Waits in line; when the wait is over, looks once past it.
async fn in_line(
    pool: &LockPool,
    order: &Arc<Order>,
    begun: Moment,
    until: Option<Moment>,
) -> Result<(LockGuard, Offer), LockError> {
    let clock = pool.backend().clock();
    let here = fault::current_runtime().map_err(|fault| fault.into_error(None))?;
    let now = clock.now();
    let pause = |now: Moment| {
        let rest = until.map_or(Duration::MAX, |until| now.until(until));
        rest.min(LOOK_AT_LEAST_EVERY)
    };
    let timer = fault::needs_drivers(|| tokio::time::sleep(pause(now)));
    let mut timer = pin!(timer.map_err(|fault| fault.into_error(None))?);
    let mut ticket = Ticket::new(pool, order, &here, now);
    let mut last_look = None; // boxed when it is needed, which is seldom
    let mut is_over = false;
    let mut begins = Some(now);
    std::future::poll_fn(|cx| {
        loop {
            let now = if let Some(begins) = begins.take() {
                begins
            } else {
                pool.check_process()?; // it may have been begun by the parent
                clock.now()
            };
            while let Poll::Ready(turn) = ticket.poll(cx, now) {
                let (position, offer) = turn?;
                if let Some(guard) = take(pool, order, position, offer, now) {
                    return Poll::Ready(Ok((guard, offer)));
                }
                ticket = Ticket::new(pool, order, &here, now); // too late for this one: to the end of the line
            }
            if is_over {
                let look = || Box::pin(past_the_line(pool, order, begun));
                return last_look.get_or_insert_with(look).as_mut().poll(cx);
            }
            ready!(timer.as_mut().poll(cx));
            let now = clock.now();
            is_over = until.is_some_and(|until| now >= until);
            timer.as_mut().reset(Instant::now() + pause(now));
        }
    })
    .await
}

/// Makes a lock that was granted this caller's own; `None`: its lease is over already.
pub(super) fn take(
    pool: &LockPool,
    order: &Arc<Order>,
    position: Position,
    offer: Offer,
    now: Moment,
) -> Option<LockGuard> {
    let lease = match offer.row.since {
        None => Lease::granted(offer.since, offer.lease, &order.terms),
        Some(began) => Lease::handed_on(offer.since, offer.lease, began, &order.terms),
    };
    if now >= lease.deadline() {
        pool.gates().vacated(&order.lane, position.token, now);
        pool.give_up(&position);
        return None;
    }
    let Position { token, claim } = position;
    let cell = Arc::new(LeaseCell::new(
        pool.home(),
        claim.key.clone(),
        pool.backend().clock(),
        &lease,
    ));
    pool.guardian().granted(token, lease, cell.clone());
    let fence = Fence::new(offer.epoch, offer.row.index);
    let hold = Hold {
        pool: pool.clone(),
        claim,
        token,
        fence,
        cell,
        order: order.clone(),
    };
    Some(LockGuard::new(hold))
}

/// Before the body of one lock; dropped or failed, nothing stays for it.
async fn begin(
    pool: &LockPool,
    order: &Order,
    guard: LockGuard,
    offer: Offer,
    patience: &Patience,
) -> Result<LockGuard, Fault> {
    if is_short(order, &offer) {
        let timeout = pool.settings().command_timeout;
        let until = patience.until;
        let rest = until.map_or(timeout, |until| now(pool).until(until.plus(timeout)));
        let confirmed = Box::pin(guard.confirm(&order.terms, rest.min(timeout)));
        if !confirmed.await? {
            return Err(lost_before_its_body());
        }
    }
    if stays(order, &guard, &offer) {
        Ok(guard)
    } else {
        Err(lost_before_its_body())
    }
}

/// With `min_hold`, the server has to promise the whole of it before the body begins (kinds-model rule 13), and
/// has not yet.
pub(super) fn is_short(order: &Order, offer: &Offer) -> bool {
    order.terms.bounds.min_hold.is_some()
        && (offer.how == Granted::InTurn || offer.lease < order.terms.lease().get())
}

/// From here on the key stays for its `min_hold`; `false`: it is lost.
pub(super) fn stays(order: &Order, guard: &LockGuard, offer: &Offer) -> bool {
    let Some(min_hold) = order.terms.bounds.min_hold else {
        return true;
    };
    let micros = u64::try_from(min_hold.as_micros()).unwrap_or(u64::MAX);
    guard.keep_until(offer.time.saturating_add(micros))
}

pub(super) fn lost_before_its_body() -> Fault {
    Fault::Unsent(Text::new("the lock was lost before its body could begin"))
}

pub(super) fn now(pool: &LockPool) -> Moment {
    pool.backend().clock().now()
}

/// One attempt that never queues: behind those who wait, and busy if there are any.
async fn past_the_line(
    pool: &LockPool,
    order: &Arc<Order>,
    begun: Moment,
) -> Result<(LockGuard, Offer), LockError> {
    let mut was_late = false;
    loop {
        let fault = match try_once(pool, order).await {
            Ok(Attempt::Granted(position, offer)) => {
                match take(pool, order, position, offer, now(pool)) {
                    Some(guard) => return Ok((guard, offer)),
                    None => {
                        Fault::Unclear(Text::new("the lease was over before its grant arrived"))
                    }
                }
            }
            Ok(Attempt::Busy(InTheWay::Somebody { holder, left })) => {
                return Err(LockError::Busy {
                    key: order.key.clone(),
                    waited: begun.until(pool.backend().clock().now()),
                    holder,
                    left,
                });
            }
            // Nothing was created, and now we know what time it is there: once more.
            Ok(Attempt::Late) if !was_late => {
                was_late = true;
                continue;
            }
            Ok(Attempt::Late) => attempt::clock_runs_ahead(),
            Ok(Attempt::Busy(InTheWay::Endless(fault))) | Err(fault) => fault,
        };
        return Err(fault.into_error(Some(&order.key)));
    }
}

/// How an attempt went that the server answered.
enum Attempt {
    Granted(Position, Offer),
    Busy(InTheWay),
    /// The server's clock is ahead of what we thought; now we know.
    Late,
}

/// One attempt, which one `command_timeout` bounds as a whole.
async fn try_once(pool: &LockPool, order: &Arc<Order>) -> Result<Attempt, Fault> {
    let (settings, clock) = (pool.settings(), pool.backend().clock());
    let begun = clock.now();
    let connect = settings.connect_timeout.min(settings.command_timeout);
    let backend = pool.backend();
    let (link, now) = backend.link_at(begun, &order.name, connect).await?;
    let left = settings.command_timeout.saturating_sub(begun.until(now));
    let within = left
        .max(Duration::from_millis(1))
        .min(order.terms.validity());
    let sent = Sent::prepare(pool, order, &link, None, (now, within));
    let open = OpenAttempt::new(pool, &sent, &link, None);
    let offer = match link.acquire(&sent.command, within).await {
        Ok(Acquired::Granted { time, epoch }) => {
            Offer::at_once(sent.at, sent.command.lease.get(), epoch, time)
        }
        Ok(Acquired::Yours { time, epoch, left }) => Offer::in_turn(sent.at, left, epoch, time),
        Ok(Acquired::Busy(busy) | Acquired::Queued(busy)) => {
            open.created_nothing();
            return attempt::in_the_way(&busy).map(Attempt::Busy);
        }
        Ok(Acquired::Late { .. }) => {
            open.created_nothing();
            return Ok(Attempt::Late);
        }
        Ok(Acquired::WrongKind { there, .. }) => {
            open.created_nothing();
            return Err(attempt::wrong_kind(order, &there));
        }
        Err(unclear) if unclear.leaves_open() => return Err(unclear), // `open` sees to the rest
        Err(answered) => {
            open.created_nothing();
            return Err(answered);
        }
    };
    open.answered();
    Ok(Attempt::Granted(sent.position(), offer))
}
