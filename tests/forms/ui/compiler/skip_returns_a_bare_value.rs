//! Neither a busy lock nor an outage has a way out: both are said.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn nightly() -> u64 {
    7
}

fn main() {
    let _kept = nightly();
}
