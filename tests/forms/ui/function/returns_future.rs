//! A function that returns a future.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>")]
fn purchase(id: u64) -> impl Future<Output = Result<u64, LockError>> {
    async move { Ok(id) }
}

// Mended.
#[distributed_lock(key = "item:<id>")]
async fn mended(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
