//! A `map_err` that returns another type than the error.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>", map_err = |_| "busy")]
async fn purchase(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
