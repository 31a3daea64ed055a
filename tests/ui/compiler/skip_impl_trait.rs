//! A type that the macro cannot name, without a value for a skipped body.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn purchase() -> impl std::fmt::Display {
    7
}

// Mended.
#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn mended() -> Result<Option<impl std::fmt::Display>, LockError> {
    Ok(Some(7))
}

fn main() {
    let _kept = (purchase(), mended());
}
