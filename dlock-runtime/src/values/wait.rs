//! The setting for how long an acquire waits while another holder has the lock. Plain data.

use std::time::Duration;

/// The time that an acquire waits while others hold the lock.
///
/// The default is the pool's [`default_wait`](crate::Config::default_wait), 3 s. The whole call may
/// take one [`command_timeout`](crate::Config::command_timeout) longer, for the last answer.
///
/// # Examples
///
/// ```
/// # use dlock_runtime::{LockPool, LockError, Wait};
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// let pool = LockPool::connect("memory://").await?;
/// let held = pool.lock("report").wait(Duration::from_secs(1)).acquire().await?;
///
/// let busy = pool.lock("report").wait(Wait::Once).acquire().await.unwrap_err();
/// assert!(busy.is_busy());
/// # held.release().await?; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Wait {
    /// Tries once; if another holder has the lock, fails with
    /// [`LockError::Busy`](crate::LockError::Busy) immediately.
    Once,
    /// Waits this long, even through outages.
    For(Duration),
    /// Waits until the lock is granted, even through outages, with one warning a minute.
    Forever,
}

impl From<Duration> for Wait {
    /// Turns a duration into a wait; zero is [`Wait::Once`].
    fn from(duration: Duration) -> Self {
        if duration.is_zero() {
            Wait::Once
        } else {
            Wait::For(duration)
        }
    }
}
