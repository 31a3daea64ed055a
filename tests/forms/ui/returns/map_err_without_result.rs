//! An error is mapped, and there is no error.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "nightly", map_err = |error| error)]
async fn purchase() {}

// Mended.
#[distributed_lock(key = "nightly", on_error = |error| drop(error))]
async fn mended() {}

fn main() {
    let _kept = (purchase(), mended());
}
