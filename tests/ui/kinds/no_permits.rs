//! A semaphore with 0 permits.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", permits = 0)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", permits = 1)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
