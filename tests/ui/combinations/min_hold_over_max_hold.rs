//! A `max_hold` that ends before the `min_hold`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", renew, max_hold = "5m", min_hold = "6m")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", renew, max_hold = "5m", min_hold = "5m")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
