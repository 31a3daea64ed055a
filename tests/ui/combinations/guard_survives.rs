//! A mistake beside a guard: the body still knows the guard and has no error of its own.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", guard = lock, tll = "10s")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    lock.verify().await?;
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", guard = lock, ttl = "10s")]
async fn mended(id: u64) -> Result<u64, LockError> {
    lock.verify().await?;
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
