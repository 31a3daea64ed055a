//! Only a busy lock is skipped: there is no value for an outage.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn purchase() -> Option<u64> {
    Some(7)
}

// Mended.
#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn mended() -> Result<Option<u64>, LockError> {
    Ok(Some(7))
}

fn main() {
    let _kept = (purchase(), mended());
}
