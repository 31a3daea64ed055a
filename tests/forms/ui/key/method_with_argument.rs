//! A placeholder with the argument of a method.

use dlock_runtime::{LockError, distributed_lock, lock_key};

#[distributed_lock(key = "item:<id.pow(2)>")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = { let part = id.pow(2); lock_key!("item:<part>") })]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
