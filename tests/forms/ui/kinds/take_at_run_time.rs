//! A count that only the running program knows.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", permits = 5, take = weight)]
async fn purchase(id: u64, weight: u32) -> Result<u64, LockError> {
    Ok(id + u64::from(weight))
}

// Mended.
#[distributed_lock(key = "item:<id>", permits = 5, take = 2)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7, 2), mended(7));
}
