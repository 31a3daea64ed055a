//! An error type without `From<LockError>`.

use dlock_runtime::{LockError, distributed_lock};

struct ShopError;

fn shop(_: LockError) -> ShopError {
    ShopError
}

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, ShopError> {
    if id == 0 { Err(ShopError) } else { Ok(id) }
}

// Mended.
#[distributed_lock(key = "item:<id>", map_err = shop)]
async fn mended(id: u64) -> Result<u64, ShopError> {
    if id == 0 { Err(ShopError) } else { Ok(id) }
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
