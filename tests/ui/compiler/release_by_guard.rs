//! The body only borrows the guard: it cannot release the lock itself.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", guard = lock)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    let _ = lock.release().await;
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
