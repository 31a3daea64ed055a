//! Neither `key` nor `keys`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(ttl = "10s")]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", ttl = "10s")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
