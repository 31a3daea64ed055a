//! What a pool tells about its locks, and when a wait or a hold is worth a warning.

use std::sync::Arc;
use std::time::Duration;

use super::Config;
use crate::values::listener::{ConfiguredListener, LockListener};

/// Who is told, and what is long. `None`: nobody, and nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observing {
    pub(crate) listener: Option<ConfiguredListener>,
    pub(crate) slow_acquire: Option<Duration>,
    pub(crate) long_hold: Option<Duration>,
}

impl Config {
    /// Tells this listener about each acquire, hold, loss and renewal of the pool. Default: nobody.
    ///
    /// The feature `metrics` needs none; see [`LockListener`] for what its methods may do.
    pub fn listener(mut self, listener: impl LockListener) -> Self {
        self.settings.observing.listener = Some(ConfiguredListener(Arc::new(listener)));
        self
    }

    /// Logs a warning when a call has waited for its lock for so long, with who holds it. Default:
    /// never.
    ///
    /// At least 1 ms. It is logged once for each call, while the call waits in a queue; a call that
    /// tries once waits in none. The holder is the last one that
    /// the server named; it is missing if that was not asked meanwhile, as for a lock that goes
    /// from task to task inside one process.
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

    /// Logs a warning when a lock that was held for so long is given back. Default: never.
    ///
    /// At least 1 ms. What is never given back is found by those who wait for it
    /// ([`slow_acquire`](Self::slow_acquire)), and bounded by `max_hold`.
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
