//! A value instead of arguments.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock = "item:<id>"]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
