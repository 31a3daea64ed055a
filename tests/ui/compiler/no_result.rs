//! A return type that cannot carry the error.

use dlock_runtime::{LockError, distributed_lock};

fn nothing(_: LockError) -> Option<u64> {
    None
}

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Option<u64> {
    Some(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", on_error = nothing)]
async fn mended(id: u64) -> Option<u64> {
    Some(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
