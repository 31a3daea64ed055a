//! `current()` and `LockHandle`: the innermost lock of the calling code, and a handle that may be
//! kept.

use std::time::Duration;

use dlock_runtime::{LockError, LockHandle, current, distributed_lock};
use tokio::task::yield_now;

use crate::world::{A_WHILE, World};

fn key() -> Option<String> {
    current().map(|held| held.key().to_string())
}

#[distributed_lock(key = "inner", ttl = "30s")]
async fn inner() -> Result<Option<String>, LockError> {
    yield_now().await;
    Ok(key())
}

#[distributed_lock(key = "outer", ttl = "30s", guard = lock)]
async fn outer() -> Result<LockHandle, LockError> {
    let held = current().unwrap();
    assert_eq!((held.key(), held.fence()), (lock.key(), lock.fence()));
    assert!(
        held.is_held() && held.remaining() > Duration::from_secs(20),
        "{held:?}"
    );
    assert_eq!(inner().await?.as_deref(), Some("inner"));
    assert_eq!(key().as_deref(), Some("outer"), "put back");
    let (siblings, between) = tokio::join!(inner(), async {
        yield_now().await;
        key()
    });
    assert_eq!(
        (siblings?.as_deref(), between.as_deref()),
        (Some("inner"), Some("outer"))
    );
    let spawned = tokio::spawn(async { current().is_none() });
    assert!(spawned.await.unwrap(), "a spawned task is not the body");
    Ok(held)
}

async fn it_is_the_innermost_lock(world: &World) {
    assert!(current().is_none());
    let kept = world.pool.scope(outer()).await.unwrap();
    assert!(current().is_none());
    assert!(!kept.is_held(), "released");
    assert_eq!(kept.remaining(), Duration::ZERO);
    assert!(world.is_free("outer").await, "a look keeps nothing");
}

async fn a_look_never_releases(world: &World) {
    let body = async |lock: &dlock_runtime::LockGuard| {
        drop(current().unwrap());
        let held = current().unwrap().clone();
        tokio::spawn(async move { drop(held) }).await.unwrap();
        lock.verify().await.is_ok() && lock.is_held()
    };
    assert!(world.pool.lock("item").run(body).await.unwrap());
}

async fn a_kept_handle_is_told_of_the_loss(world: &World) {
    let mut watch = None;
    let body = async |_: &dlock_runtime::LockGuard| {
        let held = current().unwrap();
        watch = Some(tokio::spawn(
            async move { (held.lost().await, held.is_held()) },
        ));
        std::future::pending::<()>().await;
    };
    let request = world.pool.lock("item").ttl(Duration::from_secs(1));
    let begun = tokio::time::Instant::now();
    let stopped = tokio::time::timeout(A_WHILE, request.run(body)).await;
    let lost = stopped.expect("the body is stopped").unwrap_err();
    // A timeout polls once more when it is over, and would hide that nothing else woke the task.
    let woken = begun.elapsed() < A_WHILE;
    assert!(lost.is_lost() && woken, "{lost}");
    let told = watch.unwrap().await.unwrap();
    assert_eq!(told, (dlock_runtime::LostCause::Deadline, false));
}

everywhere!(
    it_is_the_innermost_lock,
    a_look_never_releases,
    a_kept_handle_is_told_of_the_loss
);
