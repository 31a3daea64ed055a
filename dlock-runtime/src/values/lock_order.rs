//! What a pool does about locks that are taken in two orders.

/// What becomes of locks that are taken one inside the other, in one order here and in the other there.
///
/// Two calls that do so can end up waiting for each other until one's `wait` is over. A pool notices the
/// *possible* inversion: the two need not meet, it is enough that both have been asked for once.
/// `docs/LOCK_ORDER.md` says what counts as an order.
///
/// The default is [`Warn`](Self::Warn) where dlock is compiled with `debug_assertions`, as in a debug build, and
/// [`Off`](Self::Off) elsewhere.
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
/// // The other way round, and nobody else is there. Yet the two could meet:
/// let error = user().run(async |_| item().acquire().await.map(drop)).await?.unwrap_err();
/// assert!(matches!(error, LockError::WouldDeadlock { .. }));
/// # let _ = sold; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOrder {
    /// Nothing is noted.
    Off,
    /// A warning in the log, once for each pair of classes; the lock is taken.
    Warn,
    /// [`LockError::WouldDeadlock`](crate::LockError::WouldDeadlock) each time, before anything is sent.
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
