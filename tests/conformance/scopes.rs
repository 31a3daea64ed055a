//! `run`, and what a body can learn about its lock.

use dlock_runtime::{LockError, LockHandle, LockPool, LostCause, current};
use tokio::time::Instant;

use crate::backends::{LONG, is_free, ms};

on_every_backend!(
    run_returns_the_bodys_value_and_frees,
    run_stops_a_body_that_outlives_its_lease,
    a_body_that_fails_frees,
    another_key_inside_is_fine,
    a_guard_opens_no_scope,
    current_is_the_innermost_lock,
    a_look_outlives_its_lock_and_holds_nothing,
);

async fn run_returns_the_bodys_value_and_frees(pool: LockPool) {
    let text = "borrowed".to_owned();
    let length = pool.lock("k").ttl(LONG).run(async |lock| {
        assert_eq!(lock.key().as_str(), "lock:k");
        tokio::time::sleep(ms(50)).await;
        text.len()
    });
    assert_eq!(length.await.unwrap(), 8);
    assert!(is_free(&pool, "k").await);
}

async fn run_stops_a_body_that_outlives_its_lease(pool: LockPool) {
    let begun = Instant::now();
    let mut went_on = false;
    let lost = pool.lock("k").ttl(ms(100)).run(async |_| {
        tokio::time::sleep(LONG).await;
        went_on = true;
    });
    match lost.await {
        Err(LockError::Lost {
            cause: LostCause::Deadline,
            finished: false,
            ..
        }) => {}
        other => panic!("{other:?}"),
    }
    assert!(!went_on);
    assert!(
        begun.elapsed() >= ms(90) && begun.elapsed() < ms(10_000),
        "{:?}",
        begun.elapsed()
    );
    let next = pool.lock("k").wait(LONG).acquire().await.unwrap();
    assert!(next.is_held());
}

async fn a_body_that_fails_frees(pool: LockPool) {
    let failed = pool
        .lock("k")
        .ttl(LONG)
        .run(async |_| Err::<(), _>("no"))
        .await;
    assert_eq!(failed.unwrap(), Err("no"));
    assert!(is_free(&pool, "k").await);
}

async fn another_key_inside_is_fine(pool: LockPool) {
    let sum = pool
        .lock("a")
        .run(async |_| pool.lock("b").run(async |_| 7).await);
    assert_eq!(sum.await.unwrap().unwrap(), 7);
}

async fn a_guard_opens_no_scope(pool: LockPool) {
    let _held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    assert!(current().is_none());
    let error = pool.lock("k").wait(ms(30)).acquire().await.unwrap_err();
    assert!(error.is_busy(), "waited, and was no deadlock: {error:?}");
}

async fn current_is_the_innermost_lock(pool: LockPool) {
    let name = |held: Option<LockHandle>| held.map(|held| held.key().to_string());
    assert_eq!(name(current()), None);
    let ran = pool.lock("a").run(async |outer| {
        assert_eq!(current().unwrap().fence(), outer.fence());
        let inner = pool.lock("b").run(async |_| name(current())).await.unwrap();
        (name(current()), inner)
    });
    assert_eq!(
        ran.await.unwrap(),
        (Some("a".to_owned()), Some("b".to_owned()))
    );
    assert_eq!(name(current()), None);
}

/// A `LockHandle` outlives its scope, and then reports that nothing is held.
async fn a_look_outlives_its_lock_and_holds_nothing(pool: LockPool) {
    let held = pool
        .lock("k")
        .ttl(LONG)
        .run(async |_| current().unwrap())
        .await
        .unwrap();
    assert!(!held.is_held());
    assert_eq!(held.remaining(), ms(0));
    let lost = pool
        .lock("k")
        .ttl(ms(50))
        .wait(LONG)
        .run(async |_| tokio::time::sleep(LONG).await)
        .await;
    assert!(lost.unwrap_err().is_lost());
    assert!(pool.lock("k").wait(LONG).acquire().await.unwrap().is_held());
}
