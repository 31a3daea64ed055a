//! The pools that a program makes once, in `main`: the global one, and others by name.
//!
//! They hold [`LockPool`]s and nothing else. Invariants: a pool is set once and stays; a forked
//! child sees none of its parent's pools.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use once_cell::sync::OnceCell;

use crate::driver::core::made_before_a_fork;
use crate::driver::pool::LockPool;
use crate::driver::shutdown::{Drained, shut_down};
use crate::values::config::Config;
use crate::values::error::LockError;
use crate::values::process::{Known, PerProcess};

/// A forked child has none of its parent's pools, and may make its own.
static POOLS: PerProcess<Pools> = PerProcess::new(Pools {
    global: OnceCell::new(),
    named: Mutex::new(BTreeMap::new()),
});

#[derive(Default)]
struct Pools {
    global: OnceCell<LockPool>,
    named: Mutex<BTreeMap<String, LockPool>>,
}

impl Pools {
    fn named(&self) -> MutexGuard<'_, BTreeMap<String, LockPool>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Makes the global pool, which locked functions use by default. Call it once, in `main`.
///
/// Connects before it returns, unless the configuration is `lazy`; if that fails, the global pool
/// stays unset.
///
/// # Errors
/// Those of [`LockPool::connect`], and [`LockError::Config`] if there is a global pool already.
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
    let pools = POOLS.ours();
    if pools.global.get().is_some() {
        return Err(twice());
    }
    let pool = LockPool::connect(config).await?;
    pools.global.set(pool.clone()).map_err(|_| twice())?;
    Ok(pool)
}

/// Makes a pool for locked functions with `pool = "name"`.
///
/// # Errors
/// Those of [`LockPool::connect`], and [`LockError::Config`] if the name is empty or taken.
///
/// # Cancel safety
/// Dropping the future leaves the name free.
pub async fn init_named(
    name: impl Into<String>,
    config: impl Into<Config>,
) -> Result<LockPool, LockError> {
    let name = name.into();
    if name.is_empty() {
        return Err(LockError::config(
            "init_named needs a name, the one that locked functions say as `pool = \"billing\"`; the pool without a name is that of `init`",
        ));
    }
    let twice = |name: &str| {
        LockError::config(format_args!(
            "init_named was called twice for {name:?}; give each pool its own name"
        ))
    };
    let pools = POOLS.ours();
    if pools.named().contains_key(&name) {
        return Err(twice(&name));
    }
    let pool = LockPool::connect(config).await?;
    let mut pools = pools.named();
    if pools.contains_key(&name) {
        return Err(twice(&name));
    }
    pools.insert(name, pool.clone());
    Ok(pool)
}

/// The global pool.
///
/// # Errors
/// [`LockError::NotInitialized`] before [`init`]; [`LockError::Config`] in a forked child, before
/// an [`init`] of its own.
pub fn pool() -> Result<LockPool, LockError> {
    match POOLS.known() {
        Known::Ours(pools) => pools.global.get().cloned().ok_or(LockError::NotInitialized),
        Known::Inherited => Err(made_before_a_fork("the global pool")),
        Known::Unset => Err(LockError::NotInitialized),
    }
}

/// A pool by its name.
///
/// # Errors
/// [`LockError::Config`] if there is no pool of that name; it lists the existing names.
pub fn named(name: &str) -> Result<LockPool, LockError> {
    let pools = match POOLS.known() {
        Known::Ours(pools) => Some(pools.named()),
        Known::Inherited => return Err(made_before_a_fork("what this name stood for")),
        Known::Unset => None,
    };
    let pool = pools.as_ref().and_then(|pools| pools.get(name).cloned());
    pool.ok_or_else(|| {
        let known = pools.iter().flat_map(|pools| pools.keys().map(String::as_str));
        let known: Vec<&str> = known.collect();
        LockError::config(format_args!(
            "no pool is called {name:?}: call `dlock_runtime::init_named({name:?}, \"redis://…\").await?` in main (there {})",
            if known.is_empty() { "are none yet".to_owned() } else { format!("are: {}", known.join(", ")) },
        ))
    })
}

/// Shuts down the global pool and all named ones: they take no new locks, and held locks get time
/// to be released. A pool of [`LockPool::connect`] has its own [`shutdown`](LockPool::shutdown).
///
/// Running bodies go on; this waits until every lock has been released and every clean-up is done,
/// 5 s at most, and returns what was left then. Call it at the end of `main`, after the server has
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
    let mut all = Vec::new();
    if let Known::Ours(pools) = POOLS.known() {
        all.extend(pools.named().values().map(LockPool::core).cloned());
        all.extend(pools.global.get().map(LockPool::core).cloned());
    }
    shut_down(&all).await
}
