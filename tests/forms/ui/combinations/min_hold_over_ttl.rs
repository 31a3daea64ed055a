//! A key that would have to stay longer than its lease lasts.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", ttl = "10s", min_hold = "30s")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", ttl = "10s", min_hold = "30s", renew)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
