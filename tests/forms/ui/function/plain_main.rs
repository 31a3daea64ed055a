//! A `main` that is not async.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "main")]
fn main() -> Result<(), LockError> {
    drop(mended());
    Ok(())
}

// Mended.
#[distributed_lock(key = "main")]
async fn mended() -> Result<(), LockError> {
    Ok(())
}
