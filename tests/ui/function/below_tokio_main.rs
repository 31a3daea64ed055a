//! Below `#[tokio::main]`, where the function is no longer async.

use dlock_runtime::{LockError, distributed_lock};

#[tokio::main]
#[distributed_lock(key = "main")]
async fn main() -> Result<(), LockError> {
    mended().await
}

// Mended.
#[distributed_lock(key = "main")]
async fn mended() -> Result<(), LockError> {
    Ok(())
}
