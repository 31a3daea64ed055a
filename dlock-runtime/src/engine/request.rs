//! Asking for one lock, by method calls: what the attribute does from its arguments.

use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use super::acquire::{self, Order};
use super::guard::LockGuard;
use super::guarded::{Guarded, OnLost};
use super::pool::LockPool;
use super::scope::ScopedGuard;
use crate::policy::lease::Terms;
use crate::values::bounds::Bounds;
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::release::Release;
use crate::values::ttl::{Renew, Ttl};
use crate::values::wait::Wait;

/// A lock that is being asked for; made by [`LockPool::lock`].
///
/// What is not set comes from the pool's [`Config`](crate::Config).
#[derive(Debug)]
#[must_use = "nothing is locked before `acquire`, `try_acquire` or `run` is awaited"]
pub struct LockRequest {
    pool: LockPool,
    key: Key,
    function: Cow<'static, str>,
    ttl: Option<Duration>,
    wait: Option<Wait>,
    renew: Option<Renew>,
}

impl LockRequest {
    pub(crate) fn new(pool: LockPool, key: Key, at: &'static Location<'static>) -> Self {
        Self::named(
            pool,
            key,
            Cow::Owned(format!("{}:{}", at.file(), at.line())),
        )
    }

    pub(crate) fn named(pool: LockPool, key: Key, function: Cow<'static, str>) -> Self {
        Self {
            pool,
            key,
            function,
            ttl: None,
            wait: None,
            renew: None,
        }
    }

    /// The lease: 10 ms to 24 h. Default: the pool's `default_ttl`, 30 s.
    ///
    /// Without [`renew`](Self::renew) it must outlast the work; the lease is lost otherwise.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How long to wait while others hold the lock. Default: the pool's `default_wait`, 3 s.
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

    /// Takes the lock, waiting for it if need be.
    ///
    /// The guard is told when the lease is lost, but what you do meanwhile is not stopped; that is
    /// what [`run`](Self::run) and the attribute do.
    ///
    /// # Errors
    /// [`LockError::Busy`] when somebody else held it for the whole wait, [`LockError::WouldDeadlock`]
    /// when an enclosing locked body holds it, [`LockError::Unavailable`] and [`LockError::Refused`]
    /// when the server did not give it, [`LockError::InvalidKey`], [`LockError::Config`] and
    /// [`LockError::ShutDown`] before anything was sent. It ends after the wait and one
    /// `command_timeout` at the latest.
    ///
    /// # Cancel safety
    /// May be dropped at any time: what may have been acquired is given back in the background.
    pub async fn acquire(self) -> Result<LockGuard, LockError> {
        let (pool, order) = self.order()?;
        acquire::acquire(&pool, &order).await
    }

    /// Takes the lock if nobody else holds it; `None` if somebody does. Tries once, whatever `wait` says.
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
            Err(error) if error.is_busy() => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Takes the lock, runs the body under it, and gives it back.
    ///
    /// The body is stopped when the lease is lost: it never starts another poll after the deadline.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire), and [`LockError::Lost`] when the lease ended before the body did.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the body is dropped, and the lock given back in the background.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let written = pool.lock("report").run(async |lock| format!("written under {}", lock.fence())).await?;
    /// # let _ = written; Ok(()) }
    /// ```
    pub async fn run<T>(self, body: impl AsyncFnOnce(&LockGuard) -> T) -> Result<T, LockError> {
        let (pool, order) = self.order()?;
        let body = async move {
            match ScopedGuard::innermost() {
                Some(guard) => Some(body(&guard).await),
                None => None, // a body is polled inside the scope of its lock
            }
        };
        let ran = Guarded::new(
            async move { acquire::acquire(&pool, &order).await },
            body,
            OnLost::Cancel,
        )
        .await?;
        ran.ok_or_else(|| {
            LockError::config("the body was polled outside its lock; please report this")
        })
    }

    /// What to do, all checked.
    pub(crate) fn order(self) -> Result<(LockPool, Arc<Order>), LockError> {
        let settings = self.pool.settings();
        let ttl = self.ttl.map_or(Ok(settings.default_ttl), Ttl::new)?;
        let renew = self.renew.map(|renew| renew.interval(ttl)).transpose()?;
        let key = self.key.in_namespace(&settings.namespace)?;
        let order = Order {
            name: key.as_str().into(),
            key,
            terms: Terms {
                ttl,
                renew,
                bounds: Bounds::default(),
            },
            wait: self.wait.unwrap_or(settings.default_wait),
            release: Release::Confirmed,
            function: self.function,
        };
        Ok((self.pool, Arc::new(order)))
    }
}
