//! A key that would have to stay longer than its lease lasts.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", ttl = "10s", min_hold = "30s")]
async fn nightly() -> Result<(), LockError> {
    Ok(())
}

fn main() {
    let _kept = nightly();
}
