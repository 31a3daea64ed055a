//! An argument in the spelling of another language.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", maxHold = "5m", renew)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", max_hold = "5m", renew)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
