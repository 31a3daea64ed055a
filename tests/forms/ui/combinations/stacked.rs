//! A mistake in each of two attributes: each is said once.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", tll = "10s")]
#[distributed_lock(key = "shop", wait = "3")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", ttl = "10s")]
#[distributed_lock(key = "shop", wait = "3s")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
