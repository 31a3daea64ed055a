//! The name that other libraries have for a reader.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", shared)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", read)]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
