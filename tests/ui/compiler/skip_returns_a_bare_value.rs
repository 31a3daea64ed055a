//! Neither a busy lock nor an outage has a way out: both are said.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "item:<id>", on_busy = "skip")]
async fn purchase(id: u64) -> u64 {
    id
}

fn main() {
    let _kept = purchase(7);
}
