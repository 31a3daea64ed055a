//! What other libraries call it.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(
    name = "item:<id>",
    lock_at_most_for = "10s",
    wait_time = "3s",
    watchdog = "3s"
)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", ttl = "10s", wait = "3s", renew = "3s")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
