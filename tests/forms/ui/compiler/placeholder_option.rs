//! A value that may be missing has no text.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: Option<u64>) -> Result<bool, LockError> {
    Ok(id.is_some())
}

// Mended.
#[distributed_lock(key = format!("item:{id:?}"))]
async fn mended(id: Option<u64>) -> Result<bool, LockError> {
    Ok(id.is_some())
}

fn main() {
    let _kept = (purchase(Some(7)), mended(Some(7)));
}
