//! Three mistakes in the attribute and one in the caller: all are shown.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<idd>", ttl = "10", rennew)]
async fn purchase(id: u64) -> Result<u64, LockError> {
    Ok(id)
}

fn main() {
    let _kept = purchase("seven");
}
