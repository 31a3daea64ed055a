//! Only a busy lock is skipped; an outage has nowhere to go.

use dlock_runtime::distributed_lock;

#[distributed_lock(key = "nightly", on_busy = "skip")]
async fn nightly() -> Option<u64> {
    Some(7)
}

fn main() {
    let _kept = nightly();
}
