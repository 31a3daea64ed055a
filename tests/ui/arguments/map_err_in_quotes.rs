//! A function in quotes, as in serde.

use dlock_runtime::{LockError, distributed_lock};

fn to_text(error: LockError) -> String {
    error.to_string()
}

#[distributed_lock(key = "item:<id>", map_err = "to_text")]
async fn purchase(id: u64) -> Result<u64, String> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", map_err = to_text)]
async fn mended(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
