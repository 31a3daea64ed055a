//! Turns a write lock into a read lock, with no moment at which nobody holds it.
//!
//! It takes no new lock: the token, the lease and the fence stay.

use dlock_grammar::bounds;

use super::prolong::ProlongBy;
use super::{LockGuard, undone};
use crate::values::error::LockError;
use crate::values::kind::Kind;
use crate::values::ttl::Ttl;

impl LockGuard {
    /// Turns a write lock into a read lock, without a gap: no other writer gets in between, so
    /// other readers see what was written exactly as this guard does.
    ///
    /// The lease continues, and never gets shorter; the fence stays the same. There is no way back:
    /// two readers that both wait to write would wait for each other. A second call changes
    /// nothing.
    ///
    /// # Errors
    /// [`LockError::Config`] for a lock that was not taken with `write`, [`LockError::Lost`] when
    /// the lease is over, [`LockError::Unavailable`] or [`LockError::Refused`] when the server did
    /// not confirm it: it may then be a read lock already, and the call may be repeated.
    ///
    /// # Cancel safety
    /// May be dropped at any time. It is then unknown whether the lock is a read lock; the lease
    /// counts as before.
    ///
    /// # Examples
    ///
    /// ```
    /// # use dlock_runtime::{LockPool, LockError};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), LockError> {
    /// let pool = LockPool::connect("memory://").await?;
    /// let prices = pool.lock("prices").write().acquire().await?;
    /// assert!(pool.lock("prices").read().try_acquire().await?.is_none());
    ///
    /// prices.downgrade().await?; // what was written stays as it is while it is read
    /// assert!(pool.lock("prices").read().try_acquire().await?.is_some());
    /// assert!(pool.lock("prices").write().try_acquire().await?.is_none());
    /// # Ok(()) }
    /// ```
    pub async fn downgrade(&self) -> Result<(), LockError> {
        let is_writer =
            |part: &LockGuard| part.hold.spec().kind == Kind::Write && !part.is_joined();
        if !self.parts().all(is_writer) {
            return Err(LockError::config(
                "only a lock that was taken with `write` can be downgraded to `read`",
            ));
        }
        let left = |part: &LockGuard| {
            let left = part.hold.cell.remaining().max(bounds::TTL_MIN);
            Ttl::new(left).map_err(LockError::config)
        };
        let downgraded = self.prolong_all(ProlongBy::Downgrade, left).await;
        downgraded.map_err(|lost| undone(lost, "it is not a read lock"))
    }
}
