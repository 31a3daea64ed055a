//! A function that runs when compiling.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
const fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7).is_ok(), mended(7));
}
