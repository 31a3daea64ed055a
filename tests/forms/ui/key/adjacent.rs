//! Two values that could change places.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id><shop>")]
async fn purchase(id: u64, shop: u64) -> Result<u64, LockError> {
    Ok(id + shop)
}

// Mended.
#[distributed_lock(key = "item:<id>:<shop>")]
async fn mended(id: u64, shop: u64) -> Result<u64, LockError> {
    Ok(id + shop)
}

fn main() {
    let _kept = (purchase(7, 8), mended(7, 8));
}
