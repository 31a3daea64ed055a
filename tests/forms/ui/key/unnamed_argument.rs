//! A placeholder for an argument that has no name.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase(_: u64) -> Result<(), LockError> {
    Ok(())
}

// Mended.
#[distributed_lock(key = "item:<id>")]
async fn mended(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
