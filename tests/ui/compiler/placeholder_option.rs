//! An `Option`, which has no `Display`.

use dlock_runtime::{LockError, distributed_lock, lock_key};

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: Option<u64>) -> Result<bool, LockError> {
    Ok(id.is_some())
}

// Mended.
#[distributed_lock(key = { let part = format!("{id:?}"); lock_key!("item:<part>") })]
async fn mended(id: Option<u64>) -> Result<bool, LockError> {
    Ok(id.is_some())
}

fn main() {
    let _kept = (purchase(Some(7)), mended(Some(7)));
}
