//! A placeholder that is no argument.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<idd>")]
async fn purchase(id: u64, buyer: &str) -> Result<u64, LockError> {
    let _ = buyer;
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>")]
async fn mended(id: u64, buyer: &str) -> Result<u64, LockError> {
    let _ = buyer;
    Ok(id)
}

fn main() {
    let _kept = (purchase(7, "ann"), mended(7, "ann"));
}
