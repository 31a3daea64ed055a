//! An expression that is no pool.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", pool = id)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
