//! A `map_err` with two arguments.

use dlock_runtime::{LockError, distributed_lock};

fn mapped(error: LockError, id: u64) -> String {
    format!("{id}: {error}")
}

#[distributed_lock(key = "item:<id>", map_err = mapped)]
async fn purchase(id: u64) -> Result<u64, String> {
    Ok(id)
}

fn main() {
    let _kept = purchase(7);
}
