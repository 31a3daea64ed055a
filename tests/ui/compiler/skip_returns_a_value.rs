//! A return type without a value for a skipped body.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", on_busy = "skip")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", on_busy = "skip")]
async fn mended(id: u64) -> Result<Option<u64>, LockError> {
    Ok(Some(id))
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
