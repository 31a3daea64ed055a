//! An owner without `Display`.

use dlock_runtime::{LockError, distributed_lock};

#[distributed_lock(key = "item:<id>", reentrant, owner = workflow)]
async fn purchase(id: u64, workflow: Option<u64>) -> Result<Option<u64>, LockError> {
    Ok(workflow.or(Some(id)))
}

// Mended.
#[distributed_lock(key = "item:<id>", reentrant, owner = id.to_string())]
async fn mended(id: u64, workflow: Option<u64>) -> Result<Option<u64>, LockError> {
    Ok(workflow.or(Some(id)))
}

fn main() {
    let _kept = (purchase(7, None), mended(7, None));
}
