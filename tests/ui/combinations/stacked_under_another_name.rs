//! The upper attribute does not see the lower one, which would end up inside its body.

use dlock_runtime::{LockError, distributed_lock, distributed_lock as locked};

#[distributed_lock(key = "outer:<id>")]
#[locked(key = "inner:<id>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[locked(key = "outer:<id>")]
#[distributed_lock(key = "inner:<id>")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
