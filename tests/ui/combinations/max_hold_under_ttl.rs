//! A `max_hold` that ends before the first lease.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", ttl = "10s", max_hold = "5s", renew)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", ttl = "10s", max_hold = "10s", renew)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
