//! Whoever waits for ever never finds the lock busy.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", wait = "forever", on_busy = "skip")]
async fn purchase() -> Result<(), LockError> {
    Ok(())
}

// Mended.
#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn mended() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _kept = (purchase(), mended());
}
