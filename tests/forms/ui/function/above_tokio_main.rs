//! On `main`, whose lock would be taken before its body calls `init`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "main")]
#[tokio::main]
async fn main() -> Result<(), LockError> {
    mended().await
}

// Mended.
#[distributed_lock(key = "main")]
async fn mended() -> Result<(), LockError> {
    Ok(())
}
