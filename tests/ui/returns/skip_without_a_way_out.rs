//! Only a busy lock is skipped; an outage has nowhere to go.

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
