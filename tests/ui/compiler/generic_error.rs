//! A generic error type, which may not implement `From<LockError>`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
async fn purchase<E>(id: u64) -> Result<u64, E> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>")]
async fn mended<E: From<LockError>>(id: u64) -> Result<u64, E> {
    Ok(id)
}

fn main() {
    let _kept = (purchase::<LockError>(7), mended::<LockError>(7));
}
