//! An error type that does not know of `LockError`.

use dlock_runtime::distributed_lock;

struct ShopError;

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, ShopError> {
    if id == 0 { Err(ShopError) } else { Ok(id) }
}

// Mended.
#[distributed_lock(key = "item:<id>", map_err = |_| ShopError)]
async fn mended(id: u64) -> Result<u64, ShopError> {
    if id == 0 { Err(ShopError) } else { Ok(id) }
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
