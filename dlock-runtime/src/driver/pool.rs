//! The handle that everything starts from: a server, and the settings for it.
//!
//! It only starts things: `request` takes locks, `core` has the shared state.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::request::{Keys, LockRequest};
use super::shutdown::{Drained, shut_down};
use super::status::{self, PoolStatus};
use crate::driver::core::Core;
use crate::driver::scope::InPool;
use crate::extras::admin::Admin;
use crate::link::command_error::CommandError;
use crate::link::{Answer, joined};
use crate::values::class::Site;
use crate::values::config::Config;
use crate::values::error::{LockError, Reason, Refusal};
use crate::values::finding::Finding;
use crate::values::holder::{self, Holder, Reading};
use crate::values::key::Key;
use crate::values::memory_value::MemoryValue;

/// A way to take locks on one server: connections, defaults and a watchdog, shared by all clones.
///
/// Most programs call [`init`](crate::init) once and never see a pool. Hold one yourself to take
/// locks without the attribute ([`lock`](Self::lock)), to use several servers, or to give each test
/// its own ([`scope`](Self::scope)).
///
/// It is a pool of *multiplexed* connections, not of connections to check out: one connection
/// carries the commands of hundreds of tasks at once, and every tokio runtime that takes locks gets
/// its own. When the last handle and guard are gone, connections and watchdog end; call
/// [`shutdown`](Self::shutdown) before the end of the program.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::LockPool;
///
/// let pool = LockPool::connect("memory://").await?;
/// let report = pool.lock("report").run(async |lock| lock.fence()).await?;
/// assert!(report.get() > 0);
///
/// let error = LockPool::connect("http://localhost").await.unwrap_err();
/// assert!(error.to_string().contains("redis://host:6379"));
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LockPool(Arc<Core>);

impl LockPool {
    /// A pool for the server that the URL or [`Config`] names; connects, unless the configuration
    /// is `lazy`, and then logs what a [`check`](Self::check) of the server finds.
    ///
    /// # Errors
    /// [`LockError::Config`] for settings that can't work, [`LockError::Unavailable`] when the
    /// server does not answer within `connect_timeout` (1 s), [`LockError::Refused`] for a wrong
    /// password or a replica.
    ///
    /// # Cancel safety
    /// Dropping the future drops the half-made pool.
    pub async fn connect(config: impl Into<Config>) -> Result<LockPool, LockError> {
        Core::connect(config.into()).await.map(Self)
    }

    /// Asks for a lock; nothing happens before `acquire`, `try_acquire` or `run`.
    #[track_caller]
    pub fn lock(&self, key: impl Into<Key>) -> LockRequest {
        let keys = Keys::One(key.into());
        let site = Site::by_hand(std::panic::Location::caller());
        LockRequest::new(self.0.clone(), keys, site)
    }

    /// Asks for several locks at once, up to 1,000: all of them, or none. Nothing happens before
    /// `acquire`, `try_acquire` or `run`.
    ///
    /// They are taken in the order of their names, whatever order they are given in, so two callers
    /// that want the same keys never deadlock; a key that is named twice counts once.
    /// [`LockGuard::parts`](crate::LockGuard::parts) has each key's guard.
    /// Refused with [`without_scripts`](crate::Config::without_scripts).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// let (from, to) = (9, 7);
    /// let accounts = [from, to].map(|id| dlock_runtime::lock_key!("account:<id>"));
    /// let moved = pool.lock_all(accounts).run(async |_| "moved").await?;
    ///
    /// let none: [&str; 0] = [];
    /// let error = pool.lock_all(none).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("there are no keys to lock"));
    /// # let _ = moved; Ok(()) }
    /// ```
    #[track_caller]
    pub fn lock_all(&self, keys: impl IntoIterator<Item: Into<Key>>) -> LockRequest {
        let keys = Keys::All(keys.into_iter().map(Into::into).collect());
        let site = Site::by_hand(std::panic::Location::caller());
        LockRequest::new(self.0.clone(), keys, site)
    }

    /// Returns what begins the name of each of its locks on the server: keys are given and shown
    /// without it.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.0.settings().namespace
    }

    /// Returns the ttl of its locks that are asked for without one
    /// ([`Config::default_ttl`](crate::Config::default_ttl)).
    #[must_use]
    pub fn default_ttl(&self) -> Duration {
        self.0.settings().default_ttl().get()
    }

    /// Measures how long the server takes to answer; of a cluster, the slowest of its masters.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when it does not, within one
    /// `connect_timeout` and one `command_timeout`.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn ping(&self) -> Result<Duration, LockError> {
        self.0.check_process()?;
        let to_error = |error: CommandError| self.0.error(error, None);
        let (backend, settings) = (self.0.backend(), self.0.settings());
        let links = self.0.links_to_all(settings.connect_timeout).await;
        let links = links.map_err(to_error)?;
        let clock = backend.clock();
        let pings = links.iter().map(|link| -> Answer<'_, Duration> {
            Box::pin(async move {
                let sent = clock.now();
                link.ping(settings.command_timeout).await?;
                Ok(sent.until(clock.now()))
            })
        });
        let pings = joined::all(pings.collect()).await.into_iter();
        let times: Vec<_> = pings.collect::<Result<_, _>>().map_err(to_error)?;
        Ok(times.into_iter().max().unwrap_or_default())
    }

    /// Checks the server: settings that can give a lock two holders or make calls fail, and rights
    /// that this pool's user lacks. No findings: nothing was found, and everything was looked at.
    ///
    /// For a step of a deployment, or an administrator's page. It asks in one round trip and
    /// changes nothing; the user needs no more rights than locks do. `init` and
    /// [`connect`](Self::connect) do the same and log the findings, unless the configuration is
    /// `lazy`. It does not see `appendfsync`, the replicas' settings, or the rights of guarded
    /// writes.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server does not answer, within
    /// one `connect_timeout` and one `command_timeout`. What only the user may not look at is a
    /// finding, [`Concern::NotChecked`](crate::Concern::NotChecked), and so is a master of a cluster
    /// that does not answer while others do, [`Concern::Unreachable`](crate::Concern::Unreachable).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::LockPool;
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// for finding in pool.check().await? {
    ///     eprintln!("{finding}");
    /// }
    /// assert!(pool.check().await?.is_empty(), "there is no server");
    /// # Ok(()) }
    /// ```
    pub async fn check(&self) -> Result<Vec<Finding>, LockError> {
        self.0.check_process()?;
        let to_error = |error: CommandError| self.0.error(error, None);
        let within = self.0.settings().connect_timeout;
        let reached = self.0.links_to_reachable(within).await;
        let (links, away) = reached.map_err(to_error)?;
        self.0.check(&links, away).await.map_err(to_error)
    }

    /// What this process holds and waits for through this pool, at this moment.
    ///
    /// For an administrator's page or a health check. It asks nobody and costs the locks nothing
    /// before it is called; then it looks at each lock and waiter once, so with 100,000 of them it
    /// keeps others waiting for some milliseconds. Who else holds or waits only the server knows:
    /// [`holder`](Self::holder).
    ///
    /// # Errors
    /// [`LockError::Config`] in a forked child of the process that made the pool.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{LockPool, lock_key};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let id = 7;
    /// let held = pool.lock(lock_key!("item:<id>")).acquire().await?;
    /// let status = pool.status()?;
    /// assert_eq!((status.held, status.waiting), (1, 0));
    /// assert_eq!(status.classes[0].class, "item:<id>");
    /// # drop(held); Ok(()) }
    /// ```
    pub fn status(&self) -> Result<PoolStatus, LockError> {
        self.0.check_process()?;
        Ok(status::of(&self.0))
    }

    /// The current holder of a lock; `None` if it is free. For information only, never for
    /// decisions: it may have changed when the answer arrives.
    ///
    /// # Errors
    /// [`LockError::InvalidKey`]; [`LockError::Unavailable`] or [`LockError::Refused`] when the
    /// server does not answer.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn holder(&self, key: impl Into<Key>) -> Result<Option<Holder>, LockError> {
        self.0.check_process()?;
        let key = key.into().in_namespace(&self.0.settings().namespace)?;
        let settings = self.0.settings();
        let read = async {
            let link = self
                .0
                .backend()
                .link(key.as_str(), settings.connect_timeout)
                .await?;
            link.read(key.as_str(), settings.command_timeout).await
        };
        let value = read
            .await
            .map_err(|error| self.0.error(error, Some(&key)))?;
        match value.as_deref().map(holder::read) {
            None => Ok(None),
            Some(Reading::Holder(holder)) => Ok(Some(holder)),
            Some(Reading::UnknownLayout) => Err(LockError::Refused {
                key: Some(key),
                reason: Refusal::Layout,
                source: Reason::new("the value's layout version is not 1"),
            }),
        }
    }

    /// Looks at the locks of every process, and ends a hold: [`Admin`].
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::of(self.0.clone())
    }

    /// Runs a future inside which locked functions use this pool, not the global one.
    ///
    /// This is how functions are tested in parallel, each test with its own `memory://`. It covers
    /// what is polled inside, not tasks that it spawns: give those a scope of their own,
    /// `tokio::spawn(pool.scope(task))`.
    ///
    /// # Cancel safety
    /// That of the future.
    ///
    /// # Examples
    ///
    /// ```
    /// use dlock_runtime::{LockError, LockPool, distributed_lock};
    ///
    /// #[distributed_lock(key = "item:<id>")]
    /// async fn purchase(id: u64) -> Result<u64, LockError> {
    ///     Ok(id)
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// assert_eq!(pool.scope(purchase(7)).await?, 7);
    /// assert!(matches!(purchase(7).await, Err(LockError::NotInitialized)));
    /// # Ok(()) }
    /// ```
    pub fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        InPool::new(self.0.clone(), future)
    }

    /// Ends this pool: takes no new locks, and gives held ones time to be released, as
    /// [`crate::shutdown`] does for the global pool and the named ones. Call it at the end of a
    /// program that made its own pool: a guard that is dropped just before `main` ends is not given
    /// back otherwise.
    ///
    /// # Cancel safety
    /// Dropping the future stops the waiting; the pool stays closed.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{LockError, LockPool};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// drop(pool.lock("report").acquire().await?);
    /// assert!(pool.shutdown().await.is_complete());
    /// assert!(matches!(pool.lock("report").acquire().await, Err(LockError::ShutDown)));
    /// # Ok(()) }
    /// ```
    pub async fn shutdown(&self) -> Drained {
        shut_down(std::slice::from_ref(&self.0)).await
    }

    /// The value that guarded writes left at a data key of `memory://`: for tests of code that
    /// calls [`LockGuard::write`](crate::LockGuard::write).
    ///
    /// The key is the one of the [`Batch`](crate::Batch), without a namespace. A value that has
    /// outlived its ttl is gone. There is no such call for a server, and no reading under a lock:
    /// read there with your own client.
    ///
    /// # Errors
    /// [`LockError::Config`] on a pool of any other URL.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Batch, LockPool, MemoryValue};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let lock = pool.lock("item:{7}").acquire().await?;
    /// lock.write(&Batch::new().set("stock:{7}", "3")).await?;
    /// assert_eq!(pool.memory_value("stock:{7}")?, Some(MemoryValue::Bytes(b"3".to_vec())));
    /// assert_eq!(pool.memory_value("stock:{8}")?, None);
    /// # Ok(()) }
    /// ```
    pub fn memory_value(&self, key: impl Into<Key>) -> Result<Option<MemoryValue>, LockError> {
        self.core().check_process()?;
        let stored = self.core().backend().memory_value(key.into().as_str());
        stored.map_err(|error| error.into_error(None))
    }
}

impl LockPool {
    pub(crate) fn of(core: Arc<Core>) -> Self {
        Self(core)
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl fmt::Debug for LockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
