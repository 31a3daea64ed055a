//! The setting for the end of a locked body: whether it waits for the release, and whether the
//! body's value counts if the lock was gone by then.
//!
//! The release itself is in `driver::guard::release`.

/// The way in which a lock is released at the end of its body.
///
/// It applies to the attribute and [`LockRequest::run`](crate::LockRequest::run). Your own call of
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
    /// [`command_timeout`](crate::Config::command_timeout).
    ///
    /// It costs one round trip. A caller that requests the lock after this call finds it free.
    #[default]
    Confirmed,
    /// The call sends the release and returns.
    ///
    /// The call ends a round trip sooner. The price: a caller that requests the same lock right
    /// after may find it busy for a moment; a release that fails is retried by the watchdog,
    /// counted and logged, but no caller learns of it; and after a crash at that moment the key may
    /// stay until its ttl is over.
    Background,
    /// The call waits as with [`Confirmed`](Self::Confirmed), and succeeds only if the release
    /// found the lock, that is, if it was held from its grant to its end.
    ///
    /// A renewal or the release notices a key that was deleted while the body ran. If the release
    /// does, the body's value is by default returned all the same, and only the log reports the
    /// loss. With `Strict` the value is dropped, and the call fails with
    /// [`LockError::Lost`](crate::LockError::Lost) and `finished: true`. The same holds if the
    /// release got no clear answer: the cause is [`LostCause::Unclear`](crate::LostCause::Unclear),
    /// and the release is repeated in the background. With `on_lost = "finish"` the body runs to
    /// its end, and its caller gets the error. Use `Strict` for work that is checked or undone when
    /// it may have run twice; what the body wrote stays. A strict lock asks the server at the end
    /// of each body, so it is never handed on within the process.
    Strict,
}
