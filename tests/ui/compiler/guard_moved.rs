//! The body only borrows the guard: a task cannot take it.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", guard = lock)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    tokio::spawn(async move { lock.verify().await });
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
