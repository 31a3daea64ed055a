//! A pair cannot carry the error.

use dlock_runtime::{LockError, distributed_lock};

fn nothing(_: LockError) -> (u64, u64) {
    (0, 0)
}

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> (u64, u64) {
    (id, id)
}

// Mended.
#[distributed_lock(key = "item:<id>", on_error = nothing)]
async fn mended(id: u64) -> (u64, u64) {
    (id, id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
