//! The handle that everything starts from: a server, the settings, and a guardian.

mod listener;
mod neighbours;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use self::neighbours::Neighbour;
use super::guardian::Guardian;
use super::lock_order::Nestings;
use super::request::{Keys, LockRequest};
use super::scope::InPool;
use super::shutdown::{Drained, shut_down};
use super::waiting::Gates;
use crate::backend::Backend;
use crate::backend::fault::Fault;
use crate::backend::memory::Memory;
use crate::backend::redis::Redis;
use crate::observe;
use crate::policy::gate::Position;
use crate::policy::tokens::Census;
use crate::values::class::Site;
use crate::values::config::{Address, Config, Settings};
use crate::values::error::{LockError, Refusal, Text};
use crate::values::handoff::Handoff;
use crate::values::holder::{self, Holder, Reading};
use crate::values::key::Key;
use crate::values::process::Home;
use crate::values::token::TokenSource;
use crate::values::ttl::Margin;

/// A way to take locks on one server: connections, defaults and a watchdog, shared by all clones.
///
/// Most programs call [`init`](crate::init) once and never see one. Hold one yourself to take locks
/// without the attribute ([`lock`](Self::lock)), to use several servers, or to give each test its
/// own ([`scope`](Self::scope)).
///
/// It is a pool of *multiplexed* connections, not of connections to check out: one carries the
/// commands of hundreds of tasks at once, and every tokio runtime that takes locks gets its own.
/// When the last handle and guard are gone, connections and watchdog end; at the end of a program call
/// [`shutdown`](Self::shutdown) before.
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
pub struct LockPool(Arc<Inner>);

struct Inner {
    /// Where it was made: a forked child has neither its guardian's thread nor a right to its connections.
    home: Home,
    settings: Settings,
    neighbour: Option<Arc<Neighbour>>,
    backend: Arc<dyn Backend>,
    tokens: TokenSource,
    guardian: Guardian,
    gates: Gates,
    nestings: Nestings,
    holder_name: String,
    shut: AtomicBool,
    /// How many releases got no clear answer.
    unclear_releases: AtomicU64,
}

impl LockPool {
    /// A pool for the server that the URL or [`Config`] names; connects, unless that is `lazy`.
    ///
    /// # Errors
    /// [`LockError::Config`] for settings that can't work, [`LockError::Unavailable`] when the server
    /// does not answer within `connect_timeout` (1 s), [`LockError::Refused`] for a wrong password or
    /// a replica.
    ///
    /// # Cancel safety
    /// Dropping the future drops the half-made pool.
    pub async fn connect(config: impl Into<Config>) -> Result<LockPool, LockError> {
        let settings = config.into().check()?;
        let backend: Arc<dyn Backend> = match &settings.address {
            Address::Memory => Arc::new(Memory::new()),
            Address::Redis(address) => Arc::new(Redis::new(address.clone(), &settings)),
        };
        if matches!(settings.address, Address::Memory) {
            observe::memory_only();
        }
        let tokens = TokenSource::new().map_err(|why| {
            let why = format_args!("the system gives no random numbers: {why}");
            Fault::Setup(Text::new(why)).into_error(None)
        })?;
        let pool = LockPool(Arc::new(Inner {
            home: Home::here(),
            tokens,
            guardian: Guardian::start(backend.clone(), settings.command_timeout)?,
            gates: Gates::new(
                settings.connect_timeout + settings.command_timeout,
                settings.local_handoff,
                settings.clock_margin,
            ),
            nestings: Nestings::default(),
            holder_name: settings.holder_name.clone().unwrap_or_else(host_name),
            shut: AtomicBool::new(false),
            unclear_releases: AtomicU64::new(0),
            neighbour: Neighbour::enter(&settings),
            backend,
            settings,
        }));
        let listener: Weak<Inner> = Arc::downgrade(&pool.0);
        pool.backend().listen(listener);
        if !pool.settings().lazy {
            let within = pool.settings().connect_timeout;
            pool.backend()
                .link("", within)
                .await
                .map_err(|fault| fault.into_error(None))?;
        }
        Ok(pool)
    }

    /// Asks for a lock; nothing happens before `acquire`, `try_acquire` or `run`.
    #[track_caller]
    pub fn lock(&self, key: impl Into<Key>) -> LockRequest {
        let keys = Keys::One(key.into());
        let site = Site::by_hand(std::panic::Location::caller());
        LockRequest::new(self.clone(), keys, site)
    }

    /// Asks for several locks at once, up to 1,000: all of them, or none. Nothing happens before `acquire`, `try_acquire` or
    /// `run`.
    ///
    /// They are taken in the order of their names, whatever order they are given in, so two callers who want the same
    /// keys never wait for each other; a key that is named twice counts once. [`LockGuard::parts`](crate::LockGuard::parts) has each.
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
        LockRequest::new(self.clone(), keys, site)
    }

    /// How long the server takes to answer.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when it does not, within one
    /// `connect_timeout` and one `command_timeout`.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn ping(&self) -> Result<Duration, LockError> {
        self.check_process()?;
        let to_error = |fault: Fault| fault.into_error(None);
        let link = self
            .backend()
            .link("", self.settings().connect_timeout)
            .await
            .map_err(to_error)?;
        let sent = self.backend().clock().now();
        link.ping(self.settings().command_timeout)
            .await
            .map_err(to_error)?;
        Ok(sent.until(self.backend().clock().now()))
    }

    /// Who holds a lock now; `None` when nobody does. Good for looking, never for deciding: it may
    /// have changed when the answer arrives.
    ///
    /// # Errors
    /// [`LockError::InvalidKey`]; [`LockError::Unavailable`] or [`LockError::Refused`] when the server
    /// does not answer.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn holder(&self, key: impl Into<Key>) -> Result<Option<Holder>, LockError> {
        self.check_process()?;
        let key = key.into().in_namespace(&self.settings().namespace)?;
        let settings = self.settings();
        let read = async {
            let link = self
                .backend()
                .link(key.as_str(), settings.connect_timeout)
                .await?;
            link.read(key.as_str(), settings.command_timeout).await
        };
        let value = read.await.map_err(|fault| fault.into_error(Some(&key)))?;
        match value.as_deref().map(holder::read) {
            None => Ok(None),
            Some(Reading::Holder(holder)) => Ok(Some(holder)),
            Some(Reading::UnknownLayout) => Err(LockError::Refused {
                key: Some(key),
                reason: Refusal::Layout,
                source: Text::new("the value's layout version is not 1"),
            }),
        }
    }

    /// Runs a future inside which locked functions use this pool, not the global one.
    ///
    /// This is how functions are tested in parallel, each test with its own `memory://`. It holds for
    /// what is polled inside, not for tasks that it spawns: give those a scope of their own,
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
        InPool::new(self.clone(), future)
    }

    /// Ends this pool: no new locks, and time for what is held to come back, as [`crate::shutdown`] does
    /// for the global pool and the named ones. Needed at the end of a program that made its own pool:
    /// a guard that is dropped just before `main` ends is not given back otherwise.
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
        shut_down(std::slice::from_ref(self)).await
    }

    /// Before anything is locked or sent: an error in a forked child of the process that made the pool.
    pub(crate) fn check_process(&self) -> Result<(), LockError> {
        if self.is_inherited() {
            return Err(made_before_a_fork("this pool"));
        }
        Ok(())
    }

    /// It is the parent's: none of its locks may be waited for here, and nothing of it dropped that says goodbye.
    pub(crate) fn is_inherited(&self) -> bool {
        self.0.home.is_elsewhere()
    }

    pub(crate) fn home(&self) -> Home {
        self.0.home
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The name on the server of a lock that is asked for.
    pub(crate) fn name(&self, key: Key) -> Result<Key, LockError> {
        let key = key.in_namespace(&self.settings().namespace)?;
        if let Some(neighbour) = &self.0.neighbour {
            neighbour.check(&key)?;
        }
        Ok(key)
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.0.backend
    }

    pub(crate) fn tokens(&self) -> &TokenSource {
        &self.0.tokens
    }

    pub(crate) fn guardian(&self) -> &Guardian {
        &self.0.guardian
    }

    pub(crate) fn gates(&self) -> &Gates {
        &self.0.gates
    }

    pub(crate) fn nestings(&self) -> &Nestings {
        &self.0.nestings
    }

    /// Nobody wants what the server has of this position.
    pub(crate) fn give_up(&self, position: &Position) {
        self.0.give_up(position);
    }

    /// One release more without a clear answer; how many there were.
    pub(crate) fn unclear_release(&self) -> u64 {
        self.0.unclear_releases.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn holder_name(&self) -> &str {
        &self.0.holder_name
    }

    pub(crate) fn is(&self, other: &LockPool) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.0.shut.load(Ordering::Acquire)
    }

    /// Takes no new locks from here on.
    pub(crate) fn shut(&self) {
        self.0.shut.store(true, Ordering::Release);
        for position in self.gates().close(&LockError::ShutDown) {
            self.give_up(&position);
        }
    }

    pub(crate) fn census(&self) -> Census {
        self.0.guardian.census()
    }
}

/// What was made before it is of no use in a forked child.
pub(crate) fn made_before_a_fork(what: &str) -> LockError {
    LockError::config(format_args!(
        "{what} was made before this process was forked, and stays with its parent: connect after the fork, with `init`, `init_named` or `LockPool::connect` in the child"
    ))
}

/// In a forked child everything stays as it is: a connection that ended would end for the parent too, and who waits
/// here may hold a mutex for ever.
impl Drop for Inner {
    fn drop(&mut self) {
        if self.home.is_elsewhere() {
            let nobody = Gates::new(Duration::ZERO, Handoff::DEFAULT, Margin::DEFAULT);
            std::mem::forget(std::mem::replace(&mut self.gates, nobody));
            std::mem::forget(self.backend.clone());
            self.guardian.stay();
        }
    }
}

fn host_name() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    if name.is_empty() {
        "unknown-host".to_owned()
    } else {
        name
    }
}

impl fmt::Debug for LockPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockPool")
            .field("url", &format_args!("{}", self.settings.address))
            .field("namespace", &self.settings.namespace)
            .finish_non_exhaustive()
    }
}
