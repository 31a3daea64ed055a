//! Below an attribute that runs the function, as `#[tokio::test]` does.

use dlock_runtime::{LockError, distributed_lock};

#[tokio::main]
#[distributed_lock(key = "nightly")]
async fn purchase() -> Result<(), LockError> {
    Ok(())
}

// Mended.
#[distributed_lock(key = "nightly")]
#[tokio::main]
async fn mended() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _kept = (purchase().is_ok(), mended().is_ok());
}
