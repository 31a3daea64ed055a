//! A type that the macro cannot name.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "nightly")]
async fn purchase() -> impl std::fmt::Display {
    7
}

// Mended.
#[distributed_lock(key = "nightly")]
async fn mended() -> Result<impl std::fmt::Display, LockError> {
    Ok(7)
}

fn main() {
    let _kept = (purchase(), mended());
}
