//! `map_err` on a function without a `Result`.

use dlock_runtime::{LockError, distributed_lock};

fn nothing(_: LockError) -> u64 {
    0
}

#[distributed_lock(key = "item:<id>", map_err = |error| error)]
async fn purchase(id: u64) -> u64 {
    id
}

// Mended.
#[distributed_lock(key = "item:<id>", on_error = nothing)]
async fn mended(id: u64) -> u64 {
    id
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
