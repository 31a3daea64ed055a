//! Two arguments for the same purpose.

use dlock_runtime::{LockError, distributed_lock};

fn keep(error: LockError) -> LockError {
    error
}

#[distributed_lock(key = "item:<id>", map_err = keep, on_error = Err)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", on_error = Err)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
