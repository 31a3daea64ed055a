//! Text as the error.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>")]
async fn purchase(id: u64) -> Result<u64, String> {
    Ok(id)
}

// Mended.
#[distributed_lock(key = "item:<id>", map_err = |error| error.to_string())]
async fn mended(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    let _kept = (purchase(7), mended(7));
}
