//! The same for a function that returns nothing.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn purchase() {}

// Mended.
#[distributed_lock(key = "nightly", on_busy = "skip", on_error = |error| eprintln!("{error}"))]
async fn mended() {}

fn main() {
    let _kept = (purchase(), mended());
}
