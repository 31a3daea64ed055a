//! Only one holder at a time, and what ends its turn.

use dlock_runtime::{LockError, LockPool, Released, Wait};

use crate::backends::{LONG, is_free, ms};

on_every_backend!(
    a_lock_is_exclusive,
    a_release_frees,
    a_drop_frees,
    other_keys_are_other_locks,
    try_acquire_gives_none_when_busy,
    once_does_not_wait,
    concurrent_tasks_take_turns,
);

async fn a_lock_is_exclusive(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    assert!(held.is_held());
    assert!(!is_free(&pool, "k").await);
    assert!(
        !is_free(&pool.clone(), "k").await,
        "a clone is the same pool"
    );
    let again = pool.lock("k").wait(ms(50)).acquire().await;
    assert!(again.unwrap_err().is_busy());
    assert!(held.is_held(), "who asks in vain disturbs nobody");
    held.verify().await.unwrap();
}

async fn a_release_frees(pool: LockPool) {
    for _ in 0..3 {
        let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
        assert_eq!(held.release().await.unwrap(), Released::Freed);
    }
    assert!(is_free(&pool, "k").await);
}

async fn a_drop_frees(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    drop(held);
    let next = pool
        .lock("k")
        .ttl(LONG)
        .wait(ms(20_000))
        .acquire()
        .await
        .unwrap();
    assert!(next.is_held());
}

async fn other_keys_are_other_locks(pool: LockPool) {
    let _one = pool.lock("k").acquire().await.unwrap();
    let _two = pool.lock("k2").wait(Wait::Once).acquire().await.unwrap();
    let _three = pool.lock("K").wait(Wait::Once).acquire().await.unwrap();
}

async fn try_acquire_gives_none_when_busy(pool: LockPool) {
    let held = pool
        .lock("k")
        .wait(Wait::Forever)
        .try_acquire()
        .await
        .unwrap();
    assert!(held.is_some());
    // Ignores `wait`, and how long the holder will stay.
    let second = pool
        .lock("k")
        .wait(Wait::Forever)
        .try_acquire()
        .await
        .unwrap();
    assert!(second.is_none());
}

async fn once_does_not_wait(pool: LockPool) {
    let _held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    match pool.lock("k").wait(Wait::Once).acquire().await {
        Err(LockError::Busy { waited, .. }) => assert!(waited < ms(5_000), "{waited:?}"),
        other => panic!("{other:?}"),
    }
}

/// The body reads, yields and writes: without the lock, updates would be lost.
async fn concurrent_tasks_take_turns(pool: LockPool) {
    let counter = std::rc::Rc::new(std::cell::Cell::new(0));
    let local = tokio::task::LocalSet::new();
    for _ in 0..8 {
        let (pool, counter) = (pool.clone(), counter.clone());
        local.spawn_local(async move {
            for _ in 0..5 {
                let body = async |_: &_| {
                    let seen = counter.get();
                    tokio::time::sleep(ms(1)).await;
                    counter.set(seen + 1);
                };
                pool.lock("k").wait(Wait::Forever).run(body).await.unwrap();
            }
        });
    }
    local.await;
    assert_eq!(counter.get(), 40);
}
