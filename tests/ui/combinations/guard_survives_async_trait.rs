//! The same in a method that `#[async_trait]` has rewritten.

use dlock_runtime::{LockError, distributed_lock};

#[async_trait::async_trait]
trait Shop: Sync {
    #[distributed_lock(key = "item:<id>", guard = lock, tll = "10s")]
    async fn purchase(&self, id: u64) -> Result<u64, LockError> {
        lock.verify().await?;
        Ok(id)
    }

    // Mended.
    #[distributed_lock(key = "item:<id>", guard = lock, ttl = "10s")]
    async fn mended(&self, id: u64) -> Result<u64, LockError> {
        lock.verify().await?;
        Ok(id)
    }
}

fn main() {
    let _kept = |shop: Box<dyn Shop>| drop((shop.purchase(7), shop.mended(7)));
}
