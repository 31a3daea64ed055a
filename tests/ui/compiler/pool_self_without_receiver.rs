//! `self` in the pool of a function that is no method.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", pool = self.locks)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
