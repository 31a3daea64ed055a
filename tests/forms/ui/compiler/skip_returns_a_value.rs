//! A return type that has nothing to give back when the body is left out.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn nightly() -> Result<u64, LockError> {
    Ok(7)
}

fn main() {
    let _kept = nightly();
}
