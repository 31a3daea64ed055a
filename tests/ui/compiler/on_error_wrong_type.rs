//! An `on_error` that returns another type than the function.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>", on_error = |_| "busy")]
async fn purchase(id: u64) -> u64 {
    id
}

fn main() {
    let _kept = purchase(7);
}
