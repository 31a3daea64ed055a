//! What tests see of guarded writes.

use super::pool::LockPool;
use crate::values::error::LockError;
use crate::values::key::Key;
use crate::values::stored::Stored;

impl LockPool {
    /// What guarded writes left at a data key of `memory://`: for tests of code that calls
    /// [`LockGuard::write`](crate::LockGuard::write).
    ///
    /// The key is the one of the [`Batch`](crate::Batch), without a namespace. What has outlived its ttl is gone. There is no such
    /// thing for a server, and no reading under a lock: there, your own client reads.
    ///
    /// # Errors
    /// [`LockError::Config`] on a pool of any other URL.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Batch, LockPool, Stored};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let lock = pool.lock("item:{7}").acquire().await?;
    /// lock.write(&Batch::new().set("stock:{7}", "3")).await?;
    /// assert_eq!(pool.peek("stock:{7}")?, Some(Stored::Bytes(b"3".to_vec())));
    /// assert_eq!(pool.peek("stock:{8}")?, None);
    /// # Ok(()) }
    /// ```
    pub fn peek(&self, key: impl Into<Key>) -> Result<Option<Stored>, LockError> {
        self.core().check_process()?;
        let stored = self.core().backend().peek(key.into().as_str());
        stored.map_err(|error| error.into_error(None))
    }
}
