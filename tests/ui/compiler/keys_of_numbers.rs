//! A list of keys with one that is no key.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(keys = ["shop", id])]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(keys = ["item:<id>"])]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
