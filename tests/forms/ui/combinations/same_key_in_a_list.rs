//! A stacked attribute whose list has the upper one's key.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
#[distributed_lock(keys = ["shop", "item:<id>"])]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(keys = ["shop", "item:<id>"])]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
