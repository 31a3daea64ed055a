//! What a pool tells about its locks, and when a wait or a hold is worth a warning.

use std::sync::Arc;
use std::time::Duration;

use super::Config;
use crate::values::listener::{ConfiguredListener, LockListener};

/// The level at which a pool opens its spans `dlock.acquire` and `dlock.hold`.
///
/// For each lock, a span costs what the program's subscriber does with it. The default is
/// [`Debug`](Self::Debug), so that a program that records `info` pays nothing; choose
/// [`Info`](Self::Info) to see who waits and who holds in the traces of production. The level of
/// events does not change.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::{Config, LockPool, SpanLevel};
///
/// let config = Config::new("memory://").span_level(SpanLevel::Info);
/// # drop(LockPool::connect(config).await?); Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SpanLevel {
    /// Lower than `debug`.
    Trace,
    /// The default.
    #[default]
    Debug,
    /// In most programs, recorded in production too.
    Info,
}

/// Who is told, how, and what is long. `None`: nobody, and nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observing {
    pub(crate) span_level: SpanLevel,
    pub(crate) listener: Option<ConfiguredListener>,
    pub(crate) slow_acquire: Option<Duration>,
    pub(crate) long_hold: Option<Duration>,
}

impl Config {
    /// Reports each acquire, hold, loss and renewal of the pool to this listener. Default: no
    /// listener.
    ///
    /// The feature `metrics` needs no listener. [`LockListener`] says what its methods may do.
    pub fn listener(mut self, listener: impl LockListener) -> Self {
        self.settings.observing.listener = Some(ConfiguredListener(Arc::new(listener)));
        self
    }

    /// Sets the level of the spans `dlock.acquire` and `dlock.hold`. Default: [`SpanLevel::Debug`].
    pub fn span_level(mut self, level: SpanLevel) -> Self {
        self.settings.observing.span_level = level;
        self
    }

    /// Logs a warning, with the holder's name, when a call has waited this long for its lock.
    /// Default: never.
    ///
    /// The bound is at least 1 ms. The warning is logged once for each call, while it waits in a
    /// queue; a call that tries once never queues. The holder is the last one that the server
    /// named; it is missing if the server was not asked meanwhile, as for a lock that goes from
    /// task to task inside one process.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    /// use std::time::Duration;
    ///
    /// let config = Config::new("memory://")
    ///     .slow_acquire(Duration::from_secs(2))
    ///     .long_hold(Duration::from_secs(30));
    /// # drop(LockPool::connect(config).await?); Ok(()) }
    /// ```
    pub fn slow_acquire(self, bound: Duration) -> Self {
        self.set("slow_acquire", is_seldom(bound), |it, bound| {
            it.observing.slow_acquire = Some(bound);
        })
    }

    /// Logs a warning when a lock has been held this long. Default: never.
    ///
    /// The bound is at least 1 ms. Each hold logs one warning: while the lock is still held, so that a
    /// holder that hangs is seen, or else at its release. The watchdog looks once a second, so the
    /// warning comes up to two seconds late, and it names the least time that the lock has been held.
    /// [`max_hold`](crate::LockRequest::max_hold) ends such a hold.
    pub fn long_hold(self, bound: Duration) -> Self {
        self.set("long_hold", is_seldom(bound), |it, bound| {
            it.observing.long_hold = Some(bound);
        })
    }
}

fn is_seldom(bound: Duration) -> Result<Duration, String> {
    if bound < Duration::from_millis(1) {
        return Err(format!(
            "{bound:?} would warn about every lock; give 1 ms at least, or leave it out"
        ));
    }
    Ok(bound)
}
