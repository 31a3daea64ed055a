//! A `map_err` that is no function.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>", map_err = "busy".to_owned())]
async fn purchase(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
