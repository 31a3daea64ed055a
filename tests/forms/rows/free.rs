//! Free functions: every setting at once, stacked locks, a lock within itself, and how often a
//! value of the key is rendered.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dlock_runtime::{LockError, LockPool, distributed_lock};
use futures_util::FutureExt as _;

use super::{held, memory};

/// Every argument that says something about the lease, and `r#gen`, which is a name until 2021.
#[distributed_lock(
    key = "<r#gen>:<id>:<text>",
    ttl = "10s",
    wait = "3s",
    renew = "1s",
    max_hold = "5m",
    max_renewals = 9,
    min_hold = "10ms",
    once_per = "1s",
    after_crash = "skip",
    on_busy = "skip",
    on_lost = "finish",
    release = "background",
    guard = lock,
    pool = pool
)]
#[tracing::instrument(skip_all)]
async fn everything<T: Display + Send>(
    id: u64,
    text: &str,
    r#gen: T,
    pool: &LockPool,
) -> Result<Option<String>, LockError> {
    let default = Duration::from_secs(30);
    assert!(lock.remaining() < default / 3, "the attribute's ttl");
    assert_eq!(lock.key().to_string(), held());
    Ok(Some([&*r#gen.to_string(), text, &*held()].join(" ")))
}

#[distributed_lock(key = "first:<id>")]
#[distributed_lock(key = "second:<id>", guard = second)]
#[distributed_lock(key = "third:<id>", guard = third)]
async fn stacked(id: u8) -> Result<[String; 3], LockError> {
    Ok([second.key().to_string(), third.key().to_string(), held()])
}

#[distributed_lock(key = "one")]
async fn recursive_on_one_key(again: bool) -> Result<(), LockError> {
    if again {
        Box::pin(recursive_on_one_key(false)).await?;
    }
    Ok(())
}

static RENDERED: AtomicU32 = AtomicU32::new(0);

struct Counted;

impl Display for Counted {
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

pub(super) async fn rows() {
    let pool = memory().await;
    let call = everything(7, "a b", 1.5, &pool);
    ok!(call, Some("1.5 a b 1.5:7:a%20b"));
    let refused = recursive_on_one_key(true).await.unwrap_err();
    let is_right = matches!(refused, LockError::WouldDeadlock { .. });
    assert!(is_right, "{:?}", refused);
    ok!(counted(Counted), (1, "counted"));
    // They are taken from the top down.
    ok!(stacked(1), ["second:1", "third:1", "third:1"]);
    // While the second lock is busy, the first is held, and the third has not been asked for.
    let _busy = pool.lock("second:1").acquire().await.unwrap();
    let mut call = Box::pin(pool.scope(stacked(1)));
    assert!((&mut call).now_or_never().is_none());
    assert!(pool.holder("first:1").await.unwrap().is_some());
    assert!(pool.holder("third:1").await.unwrap().is_none());
}
