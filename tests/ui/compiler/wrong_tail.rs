//! A tail of another type is shown at the tail, as without the attribute.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    id
}

fn main() {
    let _kept = purchase(7);
}
