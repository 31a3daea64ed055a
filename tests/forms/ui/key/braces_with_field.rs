//! A field in braces.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:{pair.0}")]
async fn purchase(pair: (u64, u64)) -> Result<u64, LockError> {
    Ok(pair.0)
}

// Mended.
#[distributed_lock(key = "item:<pair.0>")]
async fn mended(pair: (u64, u64)) -> Result<u64, LockError> {
    Ok(pair.0)
}

fn main() {
    let _kept = (purchase((7, 8)), mended((7, 8)));
}
