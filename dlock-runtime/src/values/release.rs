//! The setting for the end of a locked body: whether it waits for the release, and whether the
//! body's value counts if the lock was gone by then.
//!
//! The release itself is in `driver::guard::release`.

/// How a lock is released at the end of its body.
///
/// For the attribute and [`LockRequest::run`](crate::LockRequest::run). Your own call of
/// [`LockGuard::release`](crate::LockGuard::release) always waits, and is strict if the lock is; a
/// dropped guard never waits and reports nothing.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Release {
    /// The call returns once the server has answered, or could not be reached within a
    /// `command_timeout`.
    ///
    /// It costs one round trip. A caller that requests the lock after this call finds it free.
    #[default]
    Confirmed,
    /// The release is sent and the call returns.
    ///
    /// The call ends a round trip sooner. The price: a caller that requests the same lock right
    /// after may find it busy for a moment; a release that fails is retried by the watchdog,
    /// counted and logged, but no caller learns of it; and after a crash just then the key may stay
    /// until its ttl is over.
    Background,
    /// As [`Confirmed`](Self::Confirmed), and the call succeeds only if the release found the lock,
    /// that is, if it was held from its grant to its end.
    ///
    /// A key that was deleted while the body ran is noticed by a renewal or by the release. By
    /// default the body's value is returned then, and only the log tells. With `Strict` the value
    /// is dropped, and the call is [`LockError::Lost`](crate::LockError::Lost) with
    /// `finished: true`. The same holds if the release got no clear answer: the cause is
    /// [`LostCause::Unclear`](crate::LostCause::Unclear), and the release is repeated in the
    /// background. With `on_lost = "finish"` the body runs to its end, and its caller gets the
    /// error. Use it for work that is checked or undone when it may have run twice; what the body
    /// wrote stands. A strict lock asks the server at each end, so it is never handed on within the
    /// process.
    Strict,
}
