//! More permits than the semaphore has.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", permits = 5, take = 6)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", permits = 6, take = 6)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
