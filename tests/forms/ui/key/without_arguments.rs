//! A placeholder, and the function has no arguments.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase() -> Result<(), LockError> {
    Ok(())
}

// Mended.
#[distributed_lock(key = "item")]
async fn mended() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _kept = (purchase(), mended());
}
