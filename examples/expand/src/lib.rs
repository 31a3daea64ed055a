//! Two annotated functions for `cargo expand -p dlock-expand`; `docs/inside/expansion.md` explains its
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

/// Closes a shop's till, unless somebody is at it; gives the fencing token that it was closed under.
///
/// # Errors
/// When the lock can't be had or is lost: what to do about it.
#[distributed_lock(
    key = "till:<shop>",
    on_busy = "skip",
    guard = lock,
    map_err = |error| error.to_string()
)]
pub async fn close_till(shop: &str) -> Result<Option<u64>, String> {
    Ok(Some(lock.fence().get()))
}
