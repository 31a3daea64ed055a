//! An error is mapped, and there is no error.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "nightly", map_err = |error| drop(error))]
async fn purchase() {
    drop(7);
}

// Mended.
#[distributed_lock(key = "nightly", on_error = |error| drop(error))]
async fn mended() {
    drop(7);
}

fn main() {
    let _kept = (purchase(), mended());
}
