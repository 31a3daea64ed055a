//! An `impl` block.

use dlock_runtime::{LockError, distributed_lock};

struct Shop;

#[distributed_lock(key = "item:<id>")]
impl Shop {
    async fn purchase(id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

// Mended.
impl Shop {
    #[distributed_lock(key = "item:<id>")]
    async fn mended(id: u64) -> Result<u64, LockError> {
        Ok(id)
    }
}

fn main() {
    let _kept = (Shop::purchase(7), Shop::mended(7));
}
