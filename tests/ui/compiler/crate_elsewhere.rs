//! A `crate` path that does not exist.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", crate = locks::dlock_runtime)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
