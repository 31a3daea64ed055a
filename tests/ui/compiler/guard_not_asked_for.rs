//! The body uses a guard, but the attribute has no `guard`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    lock.verify().await?;
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
