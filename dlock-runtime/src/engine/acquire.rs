//! Taking one lock: attempt after attempt, each with a fresh token, until it is ours or the wait is over.
//!
//! Invariant: whatever an attempt may have left on the server has an owner: the guard, or the
//! guardian's clean-up. That holds when this future is dropped at any `await`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::guard::LockGuard;
use super::lease_cell::LeaseCell;
use super::pool::LockPool;
use super::scope;
use crate::backend::Link;
use crate::backend::fault::{self, Fault};
use crate::observe;
use crate::policy::commands::{Acquire, Acquired, Claim, Left};
use crate::policy::lease::Lease;
use crate::policy::retry::{self, Jitter};
use crate::values::bounds::Bounds;
use crate::values::error::{LockError, Refusal, Text};
use crate::values::fence::Fence;
use crate::values::holder::{self, Holder, Reading};
use crate::values::key::Key;
use crate::values::moment::Moment;
use crate::values::release::Release;
use crate::values::token::Token;
use crate::values::ttl::Ttl;
use crate::values::wait::Wait;

/// How often a wait through an outage is mentioned.
const MENTION_OUTAGE_EVERY: Duration = Duration::from_secs(60);

/// How long another program's key may be without a time to live before it counts as left behind.
const TWO_STEPS_AT_MOST: Duration = Duration::from_secs(1);

/// A lock to take.
#[derive(Debug)]
pub(crate) struct Order {
    /// With the pool's namespace.
    pub(crate) key: Key,
    pub(crate) ttl: Ttl,
    pub(crate) wait: Wait,
    /// The watchdog's interval.
    pub(crate) renew: Option<Duration>,
    #[allow(dead_code, reason = "the engine that obeys it comes next")]
    pub(crate) bounds: Bounds,
    #[allow(dead_code, reason = "the engine that obeys it comes next")]
    pub(crate) release: Release,
    /// Who asks, for others to read.
    pub(crate) function: Cow<'static, str>,
}

/// How an attempt went that the server answered.
enum Attempt {
    Granted(LockGuard),
    Busy {
        holder: Holder,
        left: Duration,
    },
    /// The key has no time to live; its owner may be about to give it one.
    Endless(Fault),
    /// The server's clock is ahead of what we thought; now we know.
    Late,
}

pub(crate) async fn acquire(pool: &LockPool, order: &Order) -> Result<LockGuard, LockError> {
    fault::check_timers().map_err(|fault| fault.into_error(None))?;
    if scope::holds(pool, &order.key) {
        return Err(LockError::WouldDeadlock {
            key: order.key.clone(),
        });
    }
    pool.guardian().revive()?;
    let mut patience = Patience::new(pool, order);
    loop {
        if pool.is_shut() {
            return Err(LockError::ShutDown);
        }
        let pause = match attempt(pool, order, patience.time_left()).await {
            Ok(Attempt::Granted(guard)) => return Ok(guard),
            Ok(Attempt::Busy { holder, left }) => patience.after_busy(holder, left)?,
            Ok(Attempt::Endless(refusal)) => patience.after_endless(refusal)?,
            Ok(Attempt::Late) => patience.after_late()?,
            Err(fault) => patience.after_fault(fault)?,
        };
        tokio::time::sleep(pause).await;
    }
}

/// One attempt; `time_left` bounds it as a whole.
async fn attempt(pool: &LockPool, order: &Order, time_left: Duration) -> Result<Attempt, Fault> {
    let (settings, clock) = (pool.settings(), pool.backend().clock());
    let begun = clock.now();
    let link = pool
        .backend()
        .link(order.key.as_str(), settings.connect_timeout.min(time_left))
        .await?;
    let token = Token::fresh().map_err(|why| {
        Fault::Setup(Text::new(format_args!(
            "the system gives no random numbers: {why}"
        )))
    })?;
    let value = holder::write(
        token,
        pool.holder_name(),
        &order.function,
        SystemTime::now(),
    );
    let claim = Claim {
        key: order.key.as_str().into(),
        value: value.into(),
    };

    let sent = clock.now();
    let time_left = time_left
        .saturating_sub(begun.until(sent))
        .max(Duration::from_millis(1));
    let within = settings
        .command_timeout
        .min(time_left)
        .min(order.ttl.validity());
    let command = Acquire {
        claim: claim.clone(),
        fences: pool.fences().clone(),
        ttl: order.ttl,
        not_after: link
            .server_time()
            .saturating_add(u64::try_from(within.as_micros()).unwrap_or(u64::MAX)),
        repair_missing_ttl: settings.repair_missing_ttl,
    };
    let open = OpenAttempt {
        pool,
        token,
        claim: &claim,
        not_after: command.not_after,
        give_up: sent.plus(within + order.ttl.get() + Duration::from_secs(1)),
        link: &link,
        settled: false,
    };
    pool.guardian().acquiring(token, claim.clone());
    let (lease, epoch) = match link.acquire(&command, within).await {
        Ok(Acquired::Granted { epoch, .. }) => {
            (Lease::granted(sent, order.ttl, order.renew), epoch)
        }
        Ok(Acquired::Yours { epoch, left, .. }) => {
            (Lease::found(sent, left, order.ttl, order.renew), epoch)
        }
        Ok(Acquired::Busy { left, value, .. }) => {
            open.created_nothing();
            return busy(&value, left);
        }
        Ok(Acquired::Late { .. }) => {
            open.created_nothing();
            return Ok(Attempt::Late);
        }
        // Unknown words may be a proxy's, which lost the answer. `open` sees to the rest.
        Err(open @ (Fault::Unclear(_) | Fault::Refused(Refusal::Other, _))) => return Err(open),
        Err(answered) => {
            open.created_nothing();
            return Err(answered);
        }
    };
    if clock.now() >= lease.deadline() {
        return Err(Fault::Unclear(Text::new(
            "the lease was over before its grant arrived",
        )));
    }
    let cell = Arc::new(LeaseCell::new(claim.key.clone(), clock, lease.deadline()));
    open.became(lease, &cell);
    let guard = LockGuard::new(
        pool.clone(),
        order.key.clone(),
        claim.clone(),
        token,
        Fence::of_grant(epoch),
        cell,
    );
    Ok(Attempt::Granted(guard))
}

fn busy(value: &str, left: Left) -> Result<Attempt, Fault> {
    match (holder::read(value), left) {
        (Reading::UnknownLayout, _) => Err(Fault::Refused(
            Refusal::Layout,
            Text::new("the value's layout version is not 1"),
        )),
        (_, Left::Endless) => {
            let why = Text::new("PTTL of the key is -1");
            Ok(Attempt::Endless(Fault::Refused(Refusal::NoTtl, why)))
        }
        (Reading::Holder(holder), Left::For(left)) => Ok(Attempt::Busy { holder, left }),
    }
}

/// An acquire whose fate is open. Dropped so, its token goes to the guardian.
struct OpenAttempt<'a> {
    pool: &'a LockPool,
    token: Token,
    claim: &'a Claim,
    not_after: u64,
    give_up: Moment,
    link: &'a Arc<dyn Link>,
    settled: bool,
}

impl OpenAttempt<'_> {
    fn created_nothing(mut self) {
        self.settled = true;
        self.pool.guardian().not_granted(self.token);
    }

    fn became(mut self, lease: Lease, cell: &Arc<LeaseCell>) {
        self.settled = true;
        self.pool
            .guardian()
            .granted(self.token, lease, cell.clone());
    }
}

impl Drop for OpenAttempt<'_> {
    fn drop(&mut self) {
        if !self.settled {
            let (claim, link) = (self.claim.clone(), self.link.clone());
            self.pool
                .guardian()
                .abandoned(self.token, claim, self.not_after, self.give_up, link);
        }
    }
}

/// How long the caller goes on, and what it hears in the end.
struct Patience<'a> {
    pool: &'a LockPool,
    order: &'a Order,
    begun: Moment,
    /// `None`: for ever.
    until: Option<Moment>,
    failures: u32,
    jitter: Jitter,
    mention_outage: Moment,
    /// Since when the key was seen without a time to live.
    endless_since: Option<Moment>,
}

impl<'a> Patience<'a> {
    fn new(pool: &'a LockPool, order: &'a Order) -> Self {
        let begun = pool.backend().clock().now();
        let until = match order.wait {
            Wait::Once => Some(begun),
            Wait::For(wait) => Some(begun.plus(wait)),
            Wait::Forever => None,
        };
        let seed = Token::fresh().map_or(0, Token::scatter);
        Self {
            pool,
            order,
            begun,
            until,
            failures: 0,
            jitter: Jitter::seeded(seed),
            mention_outage: begun.plus(MENTION_OUTAGE_EVERY),
            endless_since: None,
        }
    }

    fn now(&self) -> Moment {
        self.pool.backend().clock().now()
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| self.now() >= until)
    }

    /// What the next attempt may take: the rest of the wait, and one `command_timeout`. That in full
    /// even when this process stood still past the wait: a server that answers is not unavailable.
    fn time_left(&self) -> Duration {
        let rest = self
            .until
            .map_or(Duration::MAX, |until| self.now().until(until));
        rest.saturating_add(self.pool.settings().command_timeout)
    }

    /// The pause, but not past the end of the wait: the last attempt is made then.
    fn pause(&self, pause: Duration) -> Duration {
        self.until
            .map_or(pause, |until| pause.min(self.now().until(until)))
    }

    fn after_busy(&mut self, holder: Holder, left: Duration) -> Result<Duration, LockError> {
        (self.failures, self.endless_since) = (0, None);
        if self.is_over() {
            let (key, waited) = (self.order.key.clone(), self.begun.until(self.now()));
            return Err(LockError::Busy {
                key,
                waited,
                holder,
                left,
            });
        }
        let pause = retry::after_busy(
            left,
            self.pool.settings().poll_interval(false),
            &mut self.jitter,
        );
        Ok(self.pause(pause))
    }

    /// A program that takes its lock in two steps, `SETNX` and `EXPIRE`, may be between them: so it
    /// is looked at again before it is refused.
    fn after_endless(&mut self, refusal: Fault) -> Result<Duration, LockError> {
        let now = self.now();
        let since = *self.endless_since.get_or_insert(now);
        if self.is_over() || since.until(now) >= TWO_STEPS_AT_MOST {
            return Err(refusal.into_error(Some(&self.order.key)));
        }
        let pause = self.pool.settings().poll_interval(false);
        Ok(self.pause(pause.min(TWO_STEPS_AT_MOST)))
    }

    /// Nothing was created, and the estimate of the server's clock has been corrected: once more at
    /// once, and if that did not help, like any other failure.
    fn after_late(&mut self) -> Result<Duration, LockError> {
        if self.failures == 0 {
            self.failures = 1;
            return Ok(Duration::ZERO);
        }
        self.after_fault(Fault::Unsent(Text::new(
            "the server's clock runs ahead by leaps",
        )))
    }

    fn after_fault(&mut self, fault: Fault) -> Result<Duration, LockError> {
        if !fault.may_pass() || self.is_over() {
            return Err(fault.into_error(Some(&self.order.key)));
        }
        self.failures = self.failures.saturating_add(1);
        let now = self.now();
        if now >= self.mention_outage {
            self.mention_outage = now.plus(MENTION_OUTAGE_EVERY);
            let why = fault.into_error(Some(&self.order.key));
            observe::waiting_through_outage(self.order.key.as_str(), self.begun.until(now), &why);
        }
        let pause = retry::after_failure(self.failures, &mut self.jitter);
        Ok(self.pause(pause))
    }
}
