//! What the holder of a guard can ask and do.

use std::time::Duration;

use dlock_runtime::{LockError, LockGuard, LockPool, LostCause, Released};

use crate::backends::{LONG, is_free, is_lost, ms};

on_every_backend!(
    what_remains_shrinks,
    an_extension_out_of_bounds_is_refused_and_changes_nothing,
    verify_agrees_while_it_is_held,
    a_lease_without_renewal_ends_and_everybody_is_told,
    an_extended_lease_outlives_its_ttl,
    lost_is_silent_for_a_lock_that_was_released,
    a_guard_names_its_key;
    one_server:
    an_extension_lengthens_and_a_shorter_one_changes_nothing,
);

async fn lapsed(pool: &LockPool) -> LockGuard {
    let held = pool
        .lock("k")
        .ttl(ms(50))
        .wait(LONG)
        .acquire()
        .await
        .unwrap();
    assert_eq!(held.lost().await, LostCause::Deadline);
    held
}

async fn what_remains_shrinks(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let first = held.remaining();
    assert!(first < LONG && first > LONG / 2, "less a margin: {first:?}");
    tokio::time::sleep(ms(20)).await;
    let second = held.remaining();
    assert!(second + ms(19) <= first, "{second:?} after {first:?}");
}

async fn an_extension_lengthens_and_a_shorter_one_changes_nothing(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    held.extend(LONG * 10).await.unwrap();
    let long = held.remaining();
    assert!(long > LONG * 9 && long < LONG * 10, "{long:?}");
    held.extend(ms(10)).await.unwrap();
    assert!(held.remaining() > LONG * 9);
    // Neither the guard nor the watchdog nor the server took the shorter one for the lease.
    tokio::time::sleep(ms(50)).await;
    assert!(held.remaining() > LONG * 9);
    held.verify().await.unwrap();
}

async fn an_extension_out_of_bounds_is_refused_and_changes_nothing(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let too_long = LONG * 60 * 24 + ms(1);
    for wrong in [ms(0), ms(9), too_long, Duration::MAX] {
        let error = held.extend(wrong).await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    }
    assert!(held.is_held() && held.remaining() < LONG);
    held.verify().await.unwrap();
}

async fn verify_agrees_while_it_is_held(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    held.verify().await.unwrap();
    held.verify().await.unwrap();
}

async fn a_lease_without_renewal_ends_and_everybody_is_told(pool: LockPool) {
    let held = lapsed(&pool).await;
    assert!(!held.is_held());
    assert_eq!(held.remaining(), ms(0));
    let key = is_lost(held.verify().await, LostCause::Deadline);
    assert_eq!(key.as_str(), "lock:k");
    is_lost(held.extend(LONG).await, LostCause::Deadline);
    assert_eq!(held.lost().await, LostCause::Deadline, "also who asks late");
    assert_eq!(held.release().await.unwrap(), Released::NotHeld);
}

async fn an_extended_lease_outlives_its_ttl(pool: LockPool) {
    let held = pool.lock("k").ttl(ms(3000)).acquire().await.unwrap();
    held.extend(LONG).await.unwrap();
    tokio::time::sleep(ms(3200)).await;
    assert!(held.is_held());
    held.verify().await.unwrap();
    assert!(!is_free(&pool, "k").await);
}

async fn lost_is_silent_for_a_lock_that_was_released(pool: LockPool) {
    let held = pool.lock("k").ttl(ms(3000)).acquire().await.unwrap();
    let lost = held.lost();
    held.release().await.unwrap();
    let heard = tokio::time::timeout(ms(3200), lost).await;
    assert!(heard.is_err(), "{heard:?}");
}

async fn a_guard_names_its_key(pool: LockPool) {
    let held = pool.lock("k").acquire().await.unwrap();
    assert_eq!(
        (held.key().as_str(), held.key().to_string()),
        ("lock:k", "k".to_owned())
    );
    // A guard's key can be passed to the pool: it names the same lock.
    assert!(pool.lock(held.key()).try_acquire().await.unwrap().is_none());
}
