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
use crate::extras::leading::Candidate;
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
/// its own. When the last handle and guard are dropped, the connections and the watchdog end; call
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
    /// Makes a pool for the server that the URL or [`Config`] names: connects, unless the
    /// configuration is [`lazy`](Config::lazy), and logs what a [`check`](Self::check) of the
    /// server finds.
    ///
    /// # Errors
    /// [`LockError::Config`] for settings that can't work, [`LockError::Unavailable`] when the
    /// server does not answer within [`connect_timeout`](Config::connect_timeout) (1 s),
    /// [`LockError::Refused`] for a wrong password or a replica.
    ///
    /// # Cancel safety
    /// Dropping the future drops the half-made pool.
    pub async fn connect(config: impl Into<Config>) -> Result<LockPool, LockError> {
        Core::connect(config.into()).await.map(Self)
    }

    /// Begins a request for a lock; nothing is sent before [`acquire`](LockRequest::acquire),
    /// [`try_acquire`](LockRequest::try_acquire) or [`run`](LockRequest::run).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{LockPool, lock_key};
    /// use std::time::Duration;
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let id = 7;
    /// let item = pool.lock(lock_key!("item:<id>")).ttl(Duration::from_secs(10)).renew();
    /// let lock = item.acquire().await?;
    /// # lock.release().await?; Ok(()) }
    /// ```
    #[track_caller]
    pub fn lock(&self, key: impl Into<Key>) -> LockRequest {
        let keys = Keys::One(key.into());
        let site = Site::by_hand(std::panic::Location::caller());
        LockRequest::new(self.0.clone(), keys, site)
    }

    /// Begins a request for several locks at once, up to 1,000: all of them, or none. Nothing is
    /// sent before [`acquire`](LockRequest::acquire), [`try_acquire`](LockRequest::try_acquire) or
    /// [`run`](LockRequest::run).
    ///
    /// They are taken in the order of their names, whatever order they are given in, so two callers
    /// that want the same keys never deadlock; a key that is named twice counts once.
    /// [`LockGuard::parts`](crate::LockGuard::parts) returns each key's guard. Refused with
    /// [`without_scripts`](crate::Config::without_scripts).
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

    /// Begins a candidacy for the lead of a key: of all processes that are candidates, one leads at a
    /// time. Nothing is sent before [`run`](Candidate::run) or [`campaign`](Candidate::campaign).
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{LockPool, Term};
    /// use std::time::Duration;
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let mailer = pool.leader("mailer").ttl(Duration::from_secs(15));
    /// mailer.run(async |term: &Term| println!("leads with {}", term.fence())).await?;
    /// # Ok(()) }
    /// ```
    #[track_caller]
    pub fn leader(&self, key: impl Into<Key>) -> Candidate {
        let site = Site::by_hand(std::panic::Location::caller());
        Candidate::new(self.0.clone(), key.into(), site)
    }

    /// Returns the [prefix](Config::namespace) of its locks' names on the server; keys are given
    /// and shown without it.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.0.settings().namespace
    }

    /// Returns the ttl of locks that are requested without one ([`Config::default_ttl`]).
    #[must_use]
    pub fn default_ttl(&self) -> Duration {
        self.0.settings().default_ttl().get()
    }

    /// Measures how long the server takes to answer; in a cluster, how long its slowest master
    /// takes.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server does not answer within
    /// one [`connect_timeout`](Config::connect_timeout) and one
    /// [`command_timeout`](Config::command_timeout).
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

    /// Checks the server for settings that can give a lock two holders or make calls fail, and for
    /// rights that this pool's user lacks. An empty list means that everything was examined and
    /// nothing was found.
    ///
    /// Use it in a deployment step or for an administrator's page. It needs one round trip and
    /// changes nothing; the user needs no more rights than locks do. [`init`](crate::init) and
    /// [`connect`](Self::connect) do the same and log the findings, unless the configuration is
    /// [`lazy`](Config::lazy). The check does not see `appendfsync`, the replicas' settings, or the
    /// rights of guarded writes.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server does not answer within
    /// one [`connect_timeout`](Config::connect_timeout) and one
    /// [`command_timeout`](Config::command_timeout). A detail that the user has no right to read is
    /// a finding ([`Concern::NotChecked`](crate::Concern::NotChecked)), and so is a master of a
    /// cluster that does not answer while others do
    /// ([`Concern::Unreachable`](crate::Concern::Unreachable)).
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

    /// Returns what this process holds and waits for through this pool at this moment.
    ///
    /// Use it for an administrator's page or a health check. It sends nothing, and costs the locks
    /// nothing until it is called; then it visits each lock and waiter once, so with 100,000 of
    /// them it delays other calls by some milliseconds. Only the server knows which other processes
    /// hold or wait: see [`holder`](Self::holder) and [`admin`](Self::admin).
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

    /// Returns the current holder of a lock, or `None` if it is free. Use it for information, never
    /// for decisions: the holder may have changed by the time the answer arrives.
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

    /// Returns an [`Admin`], which shows the locks of every process and can end a hold.
    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::of(self.0.clone())
    }

    /// Runs a future inside which locked functions use this pool, not the global one.
    ///
    /// With it, functions are tested in parallel, each test with its own `memory://`. It covers
    /// what the future polls, not the tasks that it spawns: give those a scope of their own,
    /// `tokio::spawn(pool.scope(task))`.
    ///
    /// # Cancel safety
    /// The same as that of the future.
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

    /// Waits until a shutdown of this pool begins; ready at once if one has begun.
    ///
    /// A long body or a loop ends between two steps with it, before its
    /// [`shutdown_grace`](Config::shutdown_grace) is over ([`LockGuard::closing`](crate::LockGuard::closing)
    /// has an example). The future owns what it needs, so any task of any runtime can await it.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.0.closing_signal().wait()
    }

    /// Shuts down this pool: takes no new locks, and gives bodies
    /// [`shutdown_grace`](Config::shutdown_grace) to end, as [`crate::shutdown`] does for the global
    /// pool and the named ones.
    ///
    /// Call it at the end of a program that made its own pool: otherwise the lock of a guard that
    /// is dropped just before `main` ends is not released.
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

    /// Returns the value that guarded writes left at a data key of `memory://`, for tests of code
    /// that calls [`LockGuard::write`](crate::LockGuard::write).
    ///
    /// It takes the key as the [`Batch`](crate::Batch) does, without a namespace. A value that has
    /// outlived its ttl no longer exists. There is no such call for a server: read there with your
    /// own client.
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
