//! A keyword.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<type>")]
async fn purchase(r#type: u64) -> Result<u64, LockError> {
    Ok(r#type)
}

// Mended.
#[distributed_lock(key = "item:<r#type>")]
async fn mended(r#type: u64) -> Result<u64, LockError> {
    Ok(r#type)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
