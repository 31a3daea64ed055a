//! There is no value for a busy lock and none for an outage: the errors name both.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>", on_busy = "skip")]
async fn purchase(id: u64) -> u64 {
    id
}

fn main() {
    let _kept = purchase(7);
}
