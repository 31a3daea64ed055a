//! `lead` on a function whose value says nothing about the next term.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "mailer", lead, on_error = |_| 0)]
async fn mailer() -> u64 {
    7
}

// Mended.
#[distributed_lock(key = "mailer", lead)]
async fn mended() -> Result<u64, LockError> {
    Ok(7)
}

fn main() {
    let _kept = (mailer(), mended());
}
