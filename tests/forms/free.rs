//! Free functions: arguments of every shape, visibility, other attributes, stacked locks,
//! recursion.

use std::sync::atomic::{AtomicU32, Ordering};

use dlock_runtime::{LockError, distributed_lock};
use futures_util::FutureExt as _;

use crate::{held, on_memory};

/// Documented, and with every argument that says something about the lease.
#[distributed_lock(
    key = "item:<id>:<buyer.len()>",
    ttl = "10s",
    wait = "3s",
    renew = "1s",
    max_hold = "5m",
    max_renewals = 9,
    min_hold = "10ms",
    on_busy = "error",
    on_lost = "finish",
    release = "background",
    guard = lock
)]
pub(crate) async fn purchase(id: u64, buyer: &str) -> Result<(u64, String), LockError> {
    assert_eq!(lock.key().as_str(), "lock:item:7:3");
    assert!(
        lock.remaining() < std::time::Duration::from_secs(10),
        "the pool's default is 30 s"
    );
    Ok((id + buyer.len() as u64, held()))
}

#[tokio::test]
async fn the_arguments_reach_the_body_and_the_key() {
    let bought = on_memory(purchase(7, "ann")).await.unwrap();
    assert_eq!(bought, (10, "item:7:3".to_owned()));
}

#[allow(
    clippy::many_single_char_names,
    reason = "one for each sort of pattern"
)]
#[distributed_lock(key = "<a>/<b>/<c>/<d>/<e>")]
async fn patterns(
    (a, b): (u8, &str),
    [c, ..]: [u8; 3],
    Point { x: d, .. }: Point,
    mut list: Vec<u8>,
    _: u8,
    &e: &u8,
) -> Result<(String, Vec<u8>), LockError> {
    list.push(a + c + d + e);
    Ok((held(), list))
}

struct Point {
    x: u8,
    #[allow(dead_code, reason = "the pattern leaves it out")]
    y: u8,
}

#[tokio::test]
async fn patterns_bind_what_the_key_names() {
    let call = patterns((1, "b:/c"), [2, 0, 0], Point { x: 3, y: 0 }, vec![9], 0, &4);
    let (key, list) = on_memory(call).await.unwrap();
    assert_eq!((key.as_str(), list), ("1/b%3A%2Fc/2/3/4", vec![9, 10]));
}

#[distributed_lock(key = "first:<id>")]
#[distributed_lock(key = "second:<id>", guard = second)]
#[distributed_lock(key = "third:<id>", guard = third)]
async fn stacked(id: u8) -> Result<[String; 3], LockError> {
    Ok([second.key().to_string(), third.key().to_string(), held()])
}

#[tokio::test]
async fn stacked_locks_are_taken_from_the_top_down() {
    let keys = on_memory(stacked(1)).await.unwrap();
    assert_eq!(keys, ["second:1", "third:1", "third:1"]);
    // While the second lock is busy, the first is held, and the third has not been asked for.
    let pool = crate::memory().await;
    let _busy = pool.lock("second:1").acquire().await.unwrap();
    let mut call = Box::pin(pool.scope(stacked(1)));
    assert!((&mut call).now_or_never().is_none());
    assert!(pool.holder("first:1").await.unwrap().is_some());
    assert!(pool.holder("third:1").await.unwrap().is_none());
}

#[distributed_lock(key = "depth:<depth>")]
async fn recursive(depth: u32) -> Result<Vec<String>, LockError> {
    let mut keys = vec![held()];
    if depth > 0 {
        keys.extend(Box::pin(recursive(depth - 1)).await?);
    }
    Ok(keys)
}

#[distributed_lock(key = "one")]
async fn recursive_on_one_key(again: bool) -> Result<(), LockError> {
    if again {
        Box::pin(recursive_on_one_key(false)).await?;
    }
    Ok(())
}

#[tokio::test]
async fn recursion_takes_a_lock_at_every_level() {
    let keys = on_memory(recursive(2)).await.unwrap();
    assert_eq!(keys, ["depth:2", "depth:1", "depth:0"]);
    let refused = on_memory(recursive_on_one_key(true)).await.unwrap_err();
    assert!(
        matches!(refused, LockError::WouldDeadlock { .. }),
        "{refused:?}"
    );
}

static RENDERED: AtomicU32 = AtomicU32::new(0);

struct Counted;

impl std::fmt::Display for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        RENDERED.fetch_add(1, Ordering::SeqCst);
        f.write_str("counted")
    }
}

#[distributed_lock(key = "<value>")]
async fn counted(value: Counted) -> Result<(u32, String), LockError> {
    let Counted = value; // moved into the body
    Ok((RENDERED.load(Ordering::SeqCst), held()))
}

#[tokio::test]
async fn a_value_is_rendered_once_and_before_the_body() {
    let seen = on_memory(counted(Counted)).await.unwrap();
    assert_eq!(seen, (1, "counted".to_owned()));
}

/// Below `#[tokio::test]` the function is no longer async, so the lock goes above. There is no
/// pool, so the body does not run.
#[distributed_lock(key = "test", on_error = |error: LockError| assert!(matches!(error, LockError::NotInitialized)))]
#[tokio::test]
async fn above_tokio_test_is_where_it_goes() {
    panic!("ran without a lock");
}
