//! A generic type, perhaps without `Display`.

use dlock_runtime::{LockError, distributed_lock};

use std::fmt::Display;

#[distributed_lock(key = "item:<id>")]
async fn purchase<T>(id: T) -> Result<T, LockError> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>")]
async fn mended<T: Display>(id: T) -> Result<T, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
