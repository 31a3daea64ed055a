//! Ann, who is paused past her lease, and bob, who gets the lock then.

use std::time::Duration;

use dlock_runtime::{Fence, LockPool};

/// The fences of a holder whose lease ran out, and of its successor; both locks are from `pool`.
pub(crate) async fn ann_and_bob(pool: &LockPool) -> (Fence, Fence) {
    let ann = pool.lock("item:7").ttl(Duration::from_millis(100));
    let ann = ann.acquire().await.unwrap();
    let bob = pool.lock("item:7").wait(Duration::from_secs(20));
    let bob = bob.acquire().await.unwrap(); // returns when ann's lease has ended
    assert!(!ann.is_held());
    (ann.fence(), bob.fence())
}

/// The same on `memory://`.
pub(crate) async fn in_memory() -> (Fence, Fence) {
    ann_and_bob(&LockPool::connect("memory://").await.unwrap()).await
}

/// As a database column stores it.
pub(crate) fn column(fence: Fence) -> i64 {
    i64::try_from(fence.get()).expect("fits until the year 2255")
}
