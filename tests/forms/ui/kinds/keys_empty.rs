//! Several keys that are none.

use dlock_runtime::{LockError, distributed_lock};

fn one_key(id: u64) -> [String; 1] {
    [id.to_string()]
}

#[distributed_lock(keys = [])]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(keys = one_key(id))]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
