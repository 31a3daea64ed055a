//! A placeholder whose value has no `Display`.

use dlock_runtime::{LockError, distributed_lock, lock_key};

#[distributed_lock(key = "items:<ids>")]
async fn purchase(ids: Vec<u64>) -> Result<usize, LockError> {
    Ok(ids.len())
}

// Mended.
#[distributed_lock(key = { let part = format!("{ids:?}"); lock_key!("items:<part>") })]
async fn mended(ids: Vec<u64>) -> Result<usize, LockError> {
    Ok(ids.len())
}

fn main() {
    let _kept = (purchase(vec![7]), mended(vec![7]));
}
