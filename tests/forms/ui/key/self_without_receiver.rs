//! The value of a function that is no method.

use dlock_runtime::{LockError, distributed_lock};

struct Shop(u64);

impl Shop {
    #[distributed_lock(key = "shop:<self.0>")]
    async fn purchase(shop: Shop) -> Result<u64, LockError> {
        Ok(shop.0)
    }

    // Mended.
    #[distributed_lock(key = "shop:<shop.0>")]
    async fn mended(shop: Shop) -> Result<u64, LockError> {
        Ok(shop.0)
    }
}

fn main() {
    let _kept = (Shop::purchase(Shop(7)), Shop::mended(Shop(7)));
}
