//! The same behind an alias.

use dlock_runtime::{LockError, distributed_lock};

type Answer<T> = Result<T, LockError>;

#[distributed_lock(key = "item:<id>", on_busy = "skip")]
async fn purchase(id: u64) -> Answer<u64> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", on_busy = "skip")]
async fn mended(id: u64) -> Answer<Option<u64>> {
    Ok(Some(id))
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
