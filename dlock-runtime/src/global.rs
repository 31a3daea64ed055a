//! The pools that a program makes once, in `main`: the global one, and others by name; and their end.
//!
//! They hold [`LockPool`]s and nothing else. Invariants: a pool gives its place up only after its shutdown
//! has finished; a forked child sees none of its parent's pools.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::driver::core::{Core, made_before_a_fork};
use crate::driver::pool::LockPool;
use crate::driver::scope;
use crate::driver::shutdown::{ClosingSignal, Drained, shut_down};
use crate::strangers::spared;
use crate::values::config::Config;
use crate::values::error::LockError;
use crate::values::process::{Known, PerProcess};

/// A forked child has none of its parent's pools, and may make its own.
static POOLS: PerProcess<Pools> = PerProcess::new(Pools {
    by_name: RwLock::new(BTreeMap::new()),
    closing: RwLock::new(None),
});

#[derive(Default)]
struct Pools {
    by_name: RwLock<BTreeMap<String, LockPool>>,
    /// That of the next shutdown of all, once somebody asks for it.
    closing: RwLock<Option<Arc<ClosingSignal>>>,
}

/// The global pool's name, which no other may have.
const GLOBAL: &str = "";

impl Pools {
    fn get(&self, name: &str) -> Option<LockPool> {
        let pools = self.by_name.read();
        let pools = pools.unwrap_or_else(PoisonError::into_inner);
        pools.get(name).cloned()
    }

    fn all(&self) -> BTreeMap<String, LockPool> {
        let pools = self.by_name.read();
        pools.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Connects, and enters the pool if the place is still free then.
    async fn make(
        &self,
        name: &str,
        config: impl Into<Config>,
        twice: impl fmt::Display,
    ) -> Result<LockPool, LockError> {
        let is_free = |there: Option<&LockPool>| match there.map(LockPool::core) {
            None => Ok(()),
            Some(core) if core.has_ended() => Ok(()),
            Some(core) if core.is_shut() => Err(LockError::config(
                "the pool that was made before is being shut down; wait for that `shutdown().await` to return, then make another",
            )),
            Some(_) => Err(LockError::config(&twice)),
        };
        is_free(self.get(name).as_ref())?;
        let pool = LockPool::connect(config).await?;
        let pools = self.by_name.write();
        let mut pools = pools.unwrap_or_else(PoisonError::into_inner);
        is_free(pools.get(name))?;
        let former = pools.insert(name.to_owned(), pool.clone());
        drop(pools);
        self.closing_signal(); // not that of a former shutdown, even if another pool ends meanwhile
        spared(|| drop(former)); // with what the program gave it, such as a listener
        Ok(pool)
    }

    /// Of this shutdown or the next one: a finished shutdown counts until a pool is made after it.
    fn closing_signal(&self) -> Arc<ClosingSignal> {
        let pools = self.all();
        let mut cores = pools.values().map(LockPool::core);
        let is_open = |core: &&Arc<Core>| !core.is_shut();
        let is_next = cores.any(|core| is_open(&core))
            && pools
                .values()
                .all(|it| is_open(&it.core()) || it.core().has_ended());
        let closing = self.closing.write();
        let mut closing = closing.unwrap_or_else(PoisonError::into_inner);
        if is_next {
            closing.take_if(|signal| signal.has_begun());
        }
        closing.get_or_insert_with(ClosingSignal::new).clone()
    }
}

/// Makes the global pool, which locked functions use by default. Call it once, in `main`.
///
/// It connects before it returns, unless the configuration is [`lazy`](Config::lazy); if connecting
/// fails, the global pool stays unset.
///
/// # Errors
/// As [`LockPool::connect`], and [`LockError::Config`] if there is a global pool already that no
/// [`shutdown`] has ended.
///
/// # Cancel safety
/// Dropping the future leaves the global pool unset.
///
/// # Examples
///
/// ```no_run
/// # #[tokio::main] async fn main() -> Result<(), dlock_runtime::LockError> {
/// dlock_runtime::init("redis://127.0.0.1:6379").await?;
/// # Ok(()) }
/// ```
pub async fn init(config: impl Into<Config>) -> Result<LockPool, LockError> {
    let twice = "init was called before in this process; call it once, in main, `init_named` for further servers, and in tests `LockPool::connect` and `pool.scope(…)`; after `shutdown().await` it may be called again";
    POOLS.ours().make(GLOBAL, config, twice).await
}

/// Makes a pool for locked functions with `pool = "name"`; [`named`] returns it.
///
/// # Errors
/// As [`LockPool::connect`], and [`LockError::Config`] if the name is empty, or belongs to a pool
/// that no [`shutdown`] has ended.
///
/// # Cancel safety
/// Dropping the future leaves the name free.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// dlock_runtime::init_named("billing", "memory://").await?;
/// let lock = dlock_runtime::named("billing")?.lock("invoice:7").acquire().await?;
/// # lock.release().await?; Ok(()) }
/// ```
pub async fn init_named(
    name: impl Into<String>,
    config: impl Into<Config>,
) -> Result<LockPool, LockError> {
    let name = name.into();
    if name.is_empty() {
        return Err(LockError::config(
            "init_named needs a name, which locked functions give as `pool = \"billing\"`; `init` makes the pool without a name",
        ));
    }
    let twice = format!("init_named was called twice for {name:?}; give each pool its own name");
    POOLS.ours().make(&name, config, twice).await
}

/// Returns the global pool, which [`init`] made.
///
/// # Errors
/// [`LockError::NotInitialized`] before [`init`]; [`LockError::Config`] in a forked child that has
/// not called [`init`] itself.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::LockError;
///
/// let error = dlock_runtime::pool().unwrap_err();
/// assert!(matches!(error, LockError::NotInitialized));
///
/// dlock_runtime::init("memory://").await?;
/// let lock = dlock_runtime::pool()?.lock("report").acquire().await?;
/// # lock.release().await?; Ok(()) }
/// ```
pub fn pool() -> Result<LockPool, LockError> {
    match POOLS.known() {
        Known::Ours(pools) => pools.get(GLOBAL).ok_or(LockError::NotInitialized),
        Known::Inherited => Err(made_before_a_fork("the global pool")),
        Known::Unset => Err(LockError::NotInitialized),
    }
}

/// Returns the pool that [`init_named`] made under this name.
///
/// # Errors
/// [`LockError::Config`] if there is no pool of that name; the error lists the existing names.
pub fn named(name: &str) -> Result<LockPool, LockError> {
    let pools = match POOLS.known() {
        Known::Ours(pools) => Some(pools),
        Known::Inherited => return Err(made_before_a_fork("what this name stood for")),
        Known::Unset => None,
    };
    let pool = pools
        .and_then(|pools| pools.get(name))
        .filter(|_| name != GLOBAL);
    pool.ok_or_else(|| {
        let known = pools.map(Pools::all).unwrap_or_default();
        let known: Vec<_> = known.into_keys().filter(|it| it != GLOBAL).collect();
        LockError::config(format_args!(
            "no pool is called {name:?}: call `dlock_runtime::init_named({name:?}, \"redis://…\").await?` in main (there {})",
            if known.is_empty() { "are none yet".to_owned() } else { format!("are: {}", known.join(", ")) },
        ))
    })
}

/// Waits until [`shutdown`] begins; ready at once if it has begun. Inside a
/// [`LockPool::scope`], waits for the shutdown of that pool instead.
///
/// Use it in a long body or a loop, to end between two steps and not to be stopped in the middle
/// when [`shutdown_grace`](Config::shutdown_grace) is over. It may be called before [`init`]. The
/// future owns what it needs, so any task of any runtime can await it.
///
/// # Cancel safety
/// May be dropped at any time.
///
/// # Examples
///
/// ```
/// use dlock_runtime::{LockError, distributed_lock};
///
/// #[distributed_lock(key = "mailer", ttl = "15s", renew)]
/// async fn mailer() -> Result<(), LockError> {
///     let mut closing = std::pin::pin!(dlock_runtime::closing());
///     loop {
///         let mail = tokio::select! { // the arm that is not ready is dropped: it only waits
///             () = &mut closing => return Ok(()),
///             mail = next() => mail,
///         };
///         send(mail).await; // not cut short
///     }
/// }
/// # async fn next() { tokio::task::yield_now().await }
/// # async fn send(_: ()) {}
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// # dlock_runtime::init("memory://").await?;
/// let (ended, drained) = tokio::join!(mailer(), dlock_runtime::shutdown());
/// assert!(ended.is_ok() && drained.is_complete());
/// # Ok(()) }
/// ```
pub fn closing() -> impl Future<Output = ()> + Send + 'static + use<> {
    match scope::innermost_pool() {
        Some(core) => core.closing_signal().wait(),
        None => POOLS.ours().closing_signal().wait(),
    }
}

/// Shuts down the global pool and all named ones: they take no new locks, and bodies get time to
/// end. A pool from [`LockPool::connect`] has its own [`shutdown`](LockPool::shutdown).
///
/// 1. [`closing`] is ready. Calls that wait for a lock fail with [`LockError::ShutDown`].
/// 2. Running bodies go on for [`shutdown_grace`](Config::shutdown_grace), 5 s by default.
/// 3. Each body that still runs is dropped, *then* its lock released, inner locks before outer ones:
///    another instance has the lock at once. The call fails with [`LockError::Lost`]
///    ([`LostCause::ShutDown`](crate::LostCause::ShutDown)). Functions with `on_shutdown = "finish"`,
///    guards, and bodies that block their thread keep their locks.
///
/// It returns as soon as nothing is left, after the grace as soon as nothing is left that it may stop,
/// and at the latest two [`command_timeout`](Config::command_timeout)s after the grace. It returns what
/// is left; a warning in the log names each lock that is still held. Call it at the end of `main`, or while your server drains its
/// connections.
///
/// The pools stay closed. Once this has returned, [`init`] and [`init_named`] may be called again
/// to make new ones; guards and handles still belong to the pool that they came from.
///
/// # Cancel safety
/// Dropping the future stops the waiting; the pools stay closed, and only another `shutdown` makes
/// room for new ones.
///
/// # Examples
///
/// ```no_run
/// # async fn end() {
/// let drained = dlock_runtime::shutdown().await;
/// if !drained.is_complete() {
///     eprintln!("{} locks were still held", drained.held());
/// }
/// # }
/// ```
pub async fn shutdown() -> Drained {
    let pools = match POOLS.known() {
        Known::Ours(pools) => pools.all(),
        Known::Inherited | Known::Unset => BTreeMap::new(),
    };
    if let Known::Ours(pools) = POOLS.known() {
        pools.closing_signal().begin();
    }
    let cores: Vec<_> = pools.values().map(LockPool::core).cloned().collect();
    shut_down(&cores).await
}
