//! An owner without `reentrant`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", owner = "<id>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", reentrant, owner = "<id>")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
