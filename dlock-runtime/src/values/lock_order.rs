//! The setting for locks that are taken in two orders: ignore, warn or refuse.
//!
//! The detection is in `extras::lock_order`.

/// The reaction of a pool to locks that are taken one inside the other in two different orders.
///
/// Two calls with opposite orders can end up waiting for each other until one's `wait` is over. A
/// pool notices the *possible* inversion inside its own process: the two calls need not meet, it is
/// enough that each was made once. A cycle of more than two locks counts as well. The report names
/// each order with the file and line of its locks.
///
/// - Orders are between *classes* of locks. A template is one class, regardless of its values and
///   of its placeholders' names; so is a constant. Any other key, text or an expression, belongs to
///   the class of the place in the program that requests it: a function that takes all locks of a
///   program takes them as one class, unless its callers pass keys from
///   [`lock_key!`](crate::lock_key).
/// - A lock is inside another if it is requested in the body of an annotated function or of
///   [`run`](crate::LockRequest::run), at any depth, in the same pool. Siblings under `join!`,
///   spawned tasks and guards from [`acquire`](crate::LockRequest::acquire) hold nothing in this
///   sense.
/// - Two locks of one template are an inversion if their keys come in both orders. Sorted keys
///   never are, whether sorted by their text or with the numbers in them by value.
/// - A third lock around both orders may keep the two calls apart. It is not considered: the
///   inversion is still reported.
/// - A call that tries once (`wait = "0s"`, `on_busy = "skip"`,
///   [`try_acquire`](crate::LockRequest::try_acquire)) does not wait, so it is not part of an
///   order; a lock that it takes is held like any other.
///
/// The default is [`Warn`](Self::Warn) if dlock is compiled with `debug_assertions`, as in a debug
/// build, and [`Off`](Self::Off) otherwise. Recording costs a mutex and a look-up for each lock
/// that is requested inside another, and nothing for others.
///
/// # Examples
///
/// ```
/// # use dlock_runtime::{Config, LockError, LockOrder, LockPool, lock_key};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
/// let config = Config::new("memory://").lock_order(LockOrder::Refuse); // in tests: fail, instead of a line in the log
/// let pool = LockPool::connect(config).await?;
/// let (id, name) = (7, "ann");
/// let item = || pool.lock(lock_key!("item:<id>"));
/// let user = || pool.lock(lock_key!("user:<name>"));
///
/// let sold = item().run(async |_| user().run(async |_| "sold").await).await??;
///
/// // The other way round. No other call is waiting, but the two could meet:
/// let error = user().run(async |_| item().acquire().await.map(drop)).await?.unwrap_err();
/// assert!(matches!(error, LockError::WouldDeadlock { .. }));
/// # let _ = sold; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LockOrder {
    /// Does not record orders.
    Off,
    /// Logs a warning, once for each pair of classes; the lock is taken.
    Warn,
    /// Fails with [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock) each time, before
    /// anything is sent.
    Refuse,
}

impl Default for LockOrder {
    fn default() -> Self {
        if cfg!(debug_assertions) {
            LockOrder::Warn
        } else {
            LockOrder::Off
        }
    }
}
