//! A placeholder with a function.

use dlock_runtime::{LockError, distributed_lock, lock_key};

fn half(id: u64) -> u64 {
    id / 2
}

#[distributed_lock(key = "item:<half(id)>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = { let part = half(id); lock_key!("item:<part>") })]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
