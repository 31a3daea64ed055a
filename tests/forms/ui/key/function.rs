//! A placeholder with a function.

use dlock_runtime::{LockError, distributed_lock};

fn half(id: u64) -> u64 {
    id / 2
}

#[distributed_lock(key = "item:<half(id)>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = format!("item:{}", half(id)))]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
