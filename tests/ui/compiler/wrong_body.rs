//! A mistake in the body is shown in the body, as without the attribute.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    let total: u32 = id;
    Ok(total.into())
}

fn main() {
    let _kept = purchase(7);
}
