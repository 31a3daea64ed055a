//! A `String` as the error type.

use dlock_runtime::{LockError, distributed_lock};

fn text(error: LockError) -> String {
    error.to_string()
}

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, String> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", map_err = text)]
async fn mended(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
