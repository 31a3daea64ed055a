//! An annotated function for `cargo expand -p dlock-expand`; `docs/notes/expansion.md` explains its
//! output.

use dlock_runtime::{LockError, distributed_lock};

/// Sells an item to one buyer at a time.
///
/// # Errors
/// When the lock can't be had or is lost.
#[distributed_lock(key = "item:<id>", ttl = "10s", renew)]
pub async fn purchase(id: u64, buyer: &str) -> Result<String, LockError> {
    Ok(format!("{buyer} bought item {id}"))
}
