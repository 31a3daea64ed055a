//! Whether the end of a locked body waits until its lock is known to be free.

/// How a lock is given back at the end of its body.
///
/// For the attribute and [`LockRequest::run`](crate::LockRequest::run). A
/// [`LockGuard::release`](crate::LockGuard::release) of your own always waits, a dropped guard never does.
///
/// # Examples
///
/// ```
/// # use dlock_runtime::{Config, LockPool, LockError, Release};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// let pool = LockPool::connect(Config::new("memory://").release(Release::Background)).await?;
///
/// // The next step counts on the lock being free, so this one waits after all:
/// let request = pool.lock("report").release(Release::Confirmed);
/// let written = request.run(async |_| "written").await?;
/// # let _ = written; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Release {
    /// The call returns once the server has answered, or could not be reached within a
    /// `command_timeout`.
    ///
    /// It costs one round trip. Whoever asks after the call finds the lock free.
    #[default]
    Confirmed,
    /// The release is sent and the call returns.
    ///
    /// The call ends a round trip sooner. What it leaves: a caller that asks for the same
    /// lock right after may find it busy for a moment; a release that fails is retried by the
    /// guardian, counted and logged, but no caller hears of it; and after a crash just then the key may
    /// stay until its ttl is over.
    Background,
}
