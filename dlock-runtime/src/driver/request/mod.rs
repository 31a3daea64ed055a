//! Asks for a lock by method calls, as the attribute does from its arguments.
//!
//! Never in this folder: a command. Invariant: a request is checked as a whole before anything is
//! sent, and every wrong setting is in one error.

use std::sync::Arc;
use std::time::Duration;

use self::keys::AcquireSpecs;
use self::kind::KindWords;
use crate::client::lease::LeaseTerms;
use crate::client::queue_key::QueueKey;
use crate::client::spec::AcquireSpec;
use crate::driver::core::Core;
use crate::driver::guard::LockGuard;
use crate::driver::locked_future::{LockedFuture, OnLost, boxed};
use crate::driver::scope::ScopedGuard;
use crate::driver::shutdown::ClosingSignal;
use crate::link::offers;
use crate::observe;
use crate::values::bounds::{AfterCrash, Bounds, OncePer};
use crate::values::class::Site;
use crate::values::error::{LockError, Reason};
use crate::values::key::Key;
use crate::values::release::Release;
use crate::values::ttl::{Renew, Ttl};
use crate::values::wait::Wait;

pub(crate) use self::keys::Keys;

mod keys;
mod kind;

/// A request for a lock, made by [`LockPool::lock`](crate::LockPool::lock) and
/// [`LockPool::lock_all`](crate::LockPool::lock_all).
///
/// Settings that it leaves out come from the pool's [`Config`](crate::Config).
#[derive(Debug)]
#[must_use = "nothing is locked before `acquire`, `try_acquire` or `run` is awaited"]
pub struct LockRequest {
    core: Arc<Core>,
    keys: Keys,
    site: Site,
    ttl: Option<Duration>,
    wait: Option<Wait>,
    renew: Option<Renew>,
    bounds: Bounds,
    after_crash: Option<AfterCrash>,
    release: Option<Release>,
    /// Its body is stopped when a shutdown's grace is over.
    stops_at_shutdown: bool,
    of_candidate: bool,
    wanted: KindWords,
}

impl LockRequest {
    pub(crate) fn new(core: Arc<Core>, keys: Keys, site: Site) -> Self {
        let mut wanted = KindWords::default();
        if let Keys::All(_) = keys {
            wanted.has_several_keys();
        }
        Self {
            core,
            keys,
            site,
            ttl: None,
            wait: None,
            renew: None,
            bounds: Bounds::default(),
            after_crash: None,
            release: None,
            stops_at_shutdown: false,
            of_candidate: false,
            wanted,
        }
    }

    /// Sets the lease: 10 ms to 24 h. Default: the pool's
    /// [`default_ttl`](crate::Config::default_ttl), 30 s.
    ///
    /// Without [`renew`](Self::renew) it must outlast the work; otherwise the lease is lost.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Sets how long to wait while others hold the lock. Default: the pool's
    /// [`default_wait`](crate::Config::default_wait), 3 s.
    pub fn wait(mut self, wait: impl Into<Wait>) -> Self {
        self.wait = Some(wait.into());
        self
    }

    /// Renews the lease every third of the ttl, for as long as the guard lives.
    pub fn renew(mut self) -> Self {
        self.renew = Some(Renew::Default);
        self
    }

    /// Renews the lease at this interval, which must be less than half of the ttl.
    pub fn renew_every(mut self, interval: Duration) -> Self {
        self.renew = Some(Renew::Every(interval));
        self
    }

    /// Gives up a renewed lock after this long, even if its body still runs: at least the ttl.
    /// Default: never.
    ///
    /// It counts from the grant; with several keys, from each key's own grant, so it includes the
    /// wait for the others. It bounds what a body that hangs can block: the lock is lost *then*,
    /// with [`LostCause::MaxHold`](crate::LostCause::MaxHold), and its key is freed.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let bounded = || pool.lock("report").max_hold(Duration::from_secs(300));
    /// let held = bounded().renew().acquire().await?;
    ///
    /// // Nothing is renewed here, so there is nothing to bound:
    /// let error = bounded().acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("add `renew`"));
    /// # drop(held); Ok(()) }
    /// ```
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.bounds.max_hold = Some(max_hold);
        self
    }

    /// Limits the number of renewals: at least 1. Default: no limit while the guard lives.
    ///
    /// After the last renewal the lease runs to its deadline, and is lost there with
    /// [`LostCause::MaxRenewals`](crate::LostCause::MaxRenewals).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let held = pool.lock("report").renew().max_renewals(4).acquire().await?;
    ///
    /// let error = pool.lock("other").renew().max_renewals(0).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("at least 1"));
    /// # drop(held); Ok(()) }
    /// ```
    pub fn max_renewals(mut self, max_renewals: u32) -> Self {
        self.bounds.max_renewals = Some(max_renewals);
        self
    }

    /// Keeps the key for at least this long after the grant, even if the work is done sooner: 10 ms
    /// to 24 h, and without [`renew`](Self::renew) no more than the ttl. Default: the key is freed
    /// at the end.
    ///
    /// Use it for a job that all instances start at about the same time: an instance that is a
    /// little late must not find the lock free and run the job again. The guard ends as usual; only
    /// its key stays.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let nightly = pool.lock("nightly").min_hold(Duration::from_secs(20));
    /// let sent = nightly.run(async |_| "sent").await?;
    ///
    /// // Longer than the 30 s that the lease lasts, and nobody renews it:
    /// let error = pool.lock("other").min_hold(Duration::from_secs(60)).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("raise the ttl or add `renew`"));
    /// # let _ = sent; Ok(()) }
    /// ```
    pub fn min_hold(mut self, min_hold: Duration) -> Self {
        self.bounds.min_hold = Some(min_hold);
        self
    }

    /// Runs the job at most once in this time: 1 s to 366 days. It counts from the start of the last
    /// run that succeeded, by the server's clock, whichever process ran it.
    ///
    /// Within it, [`try_acquire`](Self::try_acquire) returns `None`, and every other call fails with
    /// [`LockError::NotDue`], without waiting, or as soon as another process has run the job. The run
    /// is recorded by [`run_once_per`](Self::run_once_per) and
    /// [`LockGuard::release_done`](crate::LockGuard::release_done). It is not a schedule: for a daily
    /// job say 20 hours, a day less the largest difference between two starts. Refused with `redlock://`.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let nightly = || pool.lock("nightly").once_per(Duration::from_secs(20 * 3600));
    /// let sent = nightly().run_once_per(async |_| Ok::<_, LockError>("sent")).await?;
    /// assert_eq!(sent?, "sent");
    ///
    /// let again = nightly().run_once_per(async |_| Ok::<_, LockError>("sent again")).await;
    /// assert!(again.unwrap_err().is_not_due());
    /// # Ok(()) }
    /// ```
    pub fn once_per(mut self, period: Duration) -> Self {
        self.bounds.once_per = Some(OncePer::new(period));
        self.wanted.has_a_period();
        self
    }

    /// Sets whether a job that runs [once per period](Self::once_per) runs again after its process
    /// crashed while it ran. Default: [`AfterCrash::Again`].
    pub fn after_crash(mut self, after_crash: AfterCrash) -> Self {
        self.after_crash = Some(after_crash);
        self.wanted.has_a_rule_for_crashes();
        self
    }

    /// Sets whether [`run`](Self::run) waits for the answer to its release, and whether it fails if
    /// the lock was gone by then. Default: the pool's [`release`](crate::Config::release),
    /// [`Release::Confirmed`].
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError, Release};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let request = pool.lock("report").release(Release::Background);
    /// let written = request.run(async |_| "written").await?; // half the round trips
    /// # let _ = written; Ok(()) }
    /// ```
    pub fn release(mut self, release: Release) -> Self {
        self.release = Some(release);
        self
    }

    /// Sets the name under which others see this holder or waiter, instead of the `file:line` of
    /// the call. Use it in a program that takes locks on behalf of others, such as a scheduler.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Holder, LockPool};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let held = pool.lock("nightly").function("scheduler").acquire().await?;
    /// let Some(Holder::Process(holder)) = pool.holder("nightly").await? else { panic!() };
    /// assert_eq!(holder.function(), "scheduler");
    /// # drop(held); Ok(()) }
    /// ```
    pub fn function(mut self, name: &'static str) -> Self {
        self.site = self.site.named(name);
        self
    }

    /// Takes the lock, and waits for it while others hold it.
    ///
    /// The guard learns when the lease is lost, but your work is not stopped; [`run`](Self::run)
    /// and the attribute stop it. Give the guard a name: `let _ = …` releases the lock at once, and
    /// only `#![warn(let_underscore_drop)]` reports it ([more](LockGuard#a-guard-needs-a-name)).
    ///
    /// # Errors
    /// [`LockError::Busy`] when another caller held it for the whole wait,
    /// [`LockError::WouldDeadlock`] when an enclosing locked body holds it,
    /// [`LockError::Unavailable`] and [`LockError::Refused`] when the server did not grant it,
    /// [`LockError::InvalidKey`], [`LockError::Config`] and [`LockError::ShutDown`] before anything
    /// was sent. The call ends at the latest after the wait and one
    /// [`command_timeout`](crate::Config::command_timeout).
    ///
    /// # Cancel safety
    /// May be dropped at any time: a lock that it may have acquired is released in the background,
    /// and the waiters behind it keep their position. Poll it on the runtime that polled it first,
    /// to which its timer belongs.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # use std::time::Duration;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let lock = pool.lock("report").acquire().await?;
    ///
    /// let impatient = pool.lock("report").wait(Duration::from_millis(10));
    /// assert!(impatient.acquire().await.unwrap_err().is_busy());
    ///
    /// lock.release().await?; // or drop it
    /// # Ok(()) }
    /// ```
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let (core, specs) = self.specs()?;
        specs.acquire(&core).await
    }

    /// Takes the lock if it is free; returns `None` if another caller holds it. Tries once,
    /// regardless of [`wait`](Self::wait).
    ///
    /// Give the guard a name, `if let Some(lock) = …`: with `.is_some()` or `Some(_)` the lock may
    /// be free again before the next line.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), but never [`LockError::Busy`].
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let held = pool.lock("report").try_acquire().await?;
    /// assert!(held.is_some());
    /// assert!(pool.lock("report").try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn try_acquire(self) -> Result<Option<LockGuard>, LockError> {
        match self.wait(Wait::Once).acquire().await {
            Err(error) if error.is_skipped() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Takes the lock, runs the body under it, and releases it.
    ///
    /// The body is stopped when the lease is lost: no poll of it starts after the deadline. It is also
    /// stopped when a shutdown's [grace](crate::Config::shutdown_grace) is over, and then its lock is
    /// released.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when the lease ended before the body
    /// did, or a [strict](crate::Release::Strict) release failed: the body's value is then dropped,
    /// and a log event reports it.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the body is dropped, and the lock is released in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let written = pool.lock("report").run(async |lock| format!("written under {}", lock.fence())).await?;
    ///
    /// let nested = pool.lock("report").run(async |_| pool.lock("report").acquire().await.map(drop));
    /// let error = nested.await?.unwrap_err(); // the lock that it waits for is its own
    /// assert!(matches!(error, LockError::WouldDeadlock { .. }));
    /// # let _ = written; Ok(()) }
    /// ```
    pub async fn run<T>(self, body: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        if self.bounds.once_per.is_some() {
            return Err(LockError::config(
                "`run` can't tell whether a job succeeded that runs once per period: call `run_once_per`",
            ));
        }
        self.run_with(body, |_| None).await
    }

    async fn run_with<T>(
        self,
        body: impl AsyncFnOnce(&LockGuard) -> T,
        failure: fn(&Option<T>) -> Option<Reason>,
    ) -> Result<T, LockError> {
        let body = async move {
            match ScopedGuard::innermost() {
                Some(guard) => Some(body(&guard).await),
                None => None, // unreachable: a body is polled inside its lock's scope
            }
        };
        let locked = self.stopped_at_shutdown().around(body)?;
        let ran = locked.failing_with(failure).await;
        let ran = ran.inspect_err(|error| {
            if size_of::<T>() > 0 {
                tell_dropped(error);
            }
        })?;
        ran.ok_or_else(|| {
            LockError::config("the body was polled outside its lock; please report this")
        })
    }

    /// Takes the lock of a job that runs [once per period](Self::once_per), runs the body under it, and
    /// releases it. If the body returns `Ok`, the release records the run.
    ///
    /// The body is stopped as by [`run`](Self::run). An `Err`, a panic, a lost lease and a dropped call
    /// record nothing, so that the next caller runs the job
    /// ([`AfterCrash::Skip`](crate::AfterCrash::Skip) keeps it from that, except after an `Err`).
    ///
    /// # Errors
    /// As [`run`](Self::run), and [`LockError::NotDue`] if the job was run within its period.
    /// [`LockError::Config`] without `once_per`.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the body is dropped, and the lock is released in the background.
    ///
    /// # Examples
    ///
    /// [`once_per`](Self::once_per) has one.
    pub async fn run_once_per<T, E>(
        self,
        body: impl AsyncFnOnce(&LockGuard) -> Result<T, E>,
    ) -> Result<Result<T, E>, LockError> {
        if self.bounds.once_per.is_none() {
            return Err(LockError::config(
                "`run_once_per` needs `once_per`: say how often, or call `run`",
            ));
        }
        self.run_with(body, |value| match value {
            Some(Err(_)) => Some(Reason::new("the job failed")),
            _ => None,
        })
        .await
    }

    /// Puts the lock around this body.
    pub(crate) fn around<F: Future>(self, body: F) -> Result<LockedFuture<F>, LockError> {
        let (core, specs) = self.specs()?;
        let acquire = boxed(move || async move { specs.acquire(&core).await });
        Ok(LockedFuture::new(acquire, body, OnLost::Cancel))
    }

    /// A body runs under it that may be dropped.
    pub(crate) fn stopped_at_shutdown(mut self) -> Self {
        self.stops_at_shutdown = true;
        self
    }

    /// It is a campaign.
    pub(crate) fn of_candidate(mut self) -> Self {
        self.of_candidate = true;
        self
    }

    /// That of its pool.
    pub(crate) fn closing_signal(&self) -> Arc<ClosingSignal> {
        self.core.closing_signal().clone()
    }

    /// Checks the whole request; every setting that can't work is in one error.
    pub(crate) fn specs(self) -> Result<(Arc<Core>, AcquireSpecs), LockError> {
        self.core.check_process()?;
        let settings = self.core.settings();
        let mut wrong = Vec::new();
        let ttl = match self.ttl {
            Some(ttl) => Ttl::new(ttl)
                .map_err(|why| wrong.push(why.to_string()))
                .ok(),
            None => Some(settings.default_ttl()),
        };
        let min_hold = self.bounds.min_hold.and_then(|it| Ttl::new(it).ok());
        for lease in [ttl, min_hold].into_iter().flatten() {
            wrong.extend(settings.check_lease(lease).err());
        }
        let interval = self.renew.zip(ttl).map(|(renew, ttl)| renew.interval(ttl));
        let interval = interval.transpose().unwrap_or_else(|why| {
            wrong.push(why.to_string());
            None
        });
        let mut bounds = self.bounds;
        if let (Some(once_per), Some(after_crash)) = (&mut bounds.once_per, self.after_crash) {
            *once_per = once_per.with(after_crash);
        }
        if self.renew.is_some() && bounds.max_hold.is_none() {
            // Never shorter than what the lock itself asks for.
            let usual = settings.default_max_hold;
            let usual =
                usual.map(|usual| [ttl, min_hold].into_iter().flatten().fold(usual, Ttl::max));
            bounds.max_hold = usual.map(Ttl::get);
        }
        let holds = bounds.check(ttl, self.renew.is_some());
        wrong.extend(holds.iter().map(ToString::to_string));
        wrong.extend(self.keys.check().err());
        let kind = self.wanted.check(&mut wrong);
        let Some(ttl) = ttl.filter(|_| wrong.is_empty()) else {
            return Err(LockError::config(wrong.join("; ")));
        };
        let wanted = offers::WantedOffer::Lock {
            kind: &kind,
            fair: self.wanted.is_fair(),
            several: self.keys.are_several(),
            once: bounds.once_per.is_some(),
        };
        self.core.offers(wanted)?;
        let (wait, release) = (
            self.wait.unwrap_or(settings.default_wait),
            self.release.unwrap_or(settings.release),
        );
        let is_once = bounds.once_per.is_some();
        let spec = |key: Key| AcquireSpec {
            // One that runs once per period is granted by the server alone, which knows its last run.
            queue_key: QueueKey::of(key.name().clone(), &kind, self.wanted.is_fair() || is_once),
            key,
            kind: kind.clone(),
            reentrant: self.wanted.is_reentrant(),
            of_candidate: self.of_candidate,
            terms: LeaseTerms {
                ttl,
                renew: interval,
                bounds,
                margin: settings.clock_margin,
            },
            wait,
            release,
            stops_at_shutdown: self.stops_at_shutdown,
            site: self.site,
        };
        let specs = self.keys.specs(|key| Ok(spec(self.core.name(key)?)))?;
        Ok((self.core, specs))
    }

    /// The spec of a request with one key.
    #[cfg(test)]
    pub(crate) fn spec(self) -> Result<(Arc<Core>, Arc<AcquireSpec>), LockError> {
        match self.specs()? {
            (core, AcquireSpecs::One(spec)) => Ok((core, spec)),
            (_, AcquireSpecs::All(_)) => panic!("one key"),
        }
    }
}

/// Reports the value of a body that ended after its lease: the caller can't see whether it succeeded.
pub(crate) fn tell_dropped(error: &LockError) {
    if let LockError::Lost {
        key,
        finished: true,
        ..
    } = error
    {
        observe::value_dropped(key.parts());
    }
}

#[cfg(test)]
mod tests;
