//! Renewal with at most 0 renewals.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", renew, max_renewals = 0)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", renew, max_renewals = 1)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
