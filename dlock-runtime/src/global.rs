//! The pools that a program names once, in `main`: the global one, and others by name.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use once_cell::sync::OnceCell;

use crate::engine::pool::LockPool;
use crate::engine::shutdown::{Drained, shut_down};
use crate::values::config::Config;
use crate::values::error::LockError;

static GLOBAL: OnceCell<LockPool> = OnceCell::new();
static NAMED: Mutex<BTreeMap<String, LockPool>> = Mutex::new(BTreeMap::new());

/// Makes the global pool, which locked functions use unless they say otherwise. Call it once, in `main`.
///
/// Connects before it returns, unless the configuration is `lazy`; when that fails, the global pool
/// stays unset.
///
/// # Errors
/// Those of [`LockPool::connect`], and [`LockError::Config`] when there is a global pool already.
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
    let twice = || {
        LockError::config(
            "init was called before in this process (a pool that was shut down stays closed); call it once, in main, `init_named` for further servers, and in tests `LockPool::connect` and `pool.scope(…)`",
        )
    };
    if GLOBAL.get().is_some() {
        return Err(twice());
    }
    let pool = LockPool::connect(config).await?;
    GLOBAL.set(pool.clone()).map_err(|_| twice())?;
    Ok(pool)
}

/// Makes a pool that locked functions use which say `pool = "name"`.
///
/// # Errors
/// Those of [`LockPool::connect`], and [`LockError::Config`] when the name is taken.
///
/// # Cancel safety
/// Dropping the future leaves the name free.
pub async fn init_named(
    name: impl Into<String>,
    config: impl Into<Config>,
) -> Result<LockPool, LockError> {
    let name = name.into();
    let twice = |name: &str| {
        LockError::config(format_args!(
            "init_named was called twice for {name:?}; give each pool its own name"
        ))
    };
    if named_pools().contains_key(&name) {
        return Err(twice(&name));
    }
    let pool = LockPool::connect(config).await?;
    let mut pools = named_pools();
    if pools.contains_key(&name) {
        return Err(twice(&name));
    }
    pools.insert(name, pool.clone());
    Ok(pool)
}

/// The global pool.
///
/// # Errors
/// [`LockError::NotInitialized`] before [`init`].
pub fn pool() -> Result<LockPool, LockError> {
    GLOBAL.get().cloned().ok_or(LockError::NotInitialized)
}

/// A pool by its name.
///
/// # Errors
/// [`LockError::Config`] when there is none of that name, with those that there are.
pub fn named(name: &str) -> Result<LockPool, LockError> {
    let pools = named_pools();
    pools.get(name).cloned().ok_or_else(|| {
        let known: Vec<&str> = pools.keys().map(String::as_str).collect();
        LockError::config(format_args!(
            "no pool is called {name:?}: call `dlock_runtime::init_named({name:?}, \"redis://…\").await?` in main (there {})",
            if known.is_empty() { "are none yet".to_owned() } else { format!("are: {}", known.join(", ")) },
        ))
    })
}

fn named_pools() -> MutexGuard<'static, BTreeMap<String, LockPool>> {
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the global pool and all named ones: no new locks, and time for what is held to come back. Not
/// those that [`LockPool::connect`] made: each has [`shutdown`](LockPool::shutdown).
///
/// Bodies that run go on; this waits until every lock has been given back and every clean-up is done,
/// 5 s at most, and says what was left then. Call it at the end of `main`, after the server has
/// stopped taking requests. The pools stay closed: there is no second [`init`] in one process.
///
/// # Cancel safety
/// Dropping the future stops the waiting; the pools stay closed.
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
    let mut pools: Vec<LockPool> = named_pools().values().cloned().collect();
    pools.extend(GLOBAL.get().cloned());
    shut_down(&pools).await
}
