//! The same for a function that returns nothing.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn purchase() {
    drop(7);
}

// Mended.
#[distributed_lock(key = "nightly", on_busy = "skip", on_error = |error| drop(error))]
async fn mended() {
    drop(7);
}

fn main() {
    let _kept = (purchase(), mended());
}
