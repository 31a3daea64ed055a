//! One owner with many tasks and processes: all of them hold the lock at the same time, and no
//! other owner does.

use dlock_runtime::{LockGuard, LockPool, Released};

use crate::backends::{LONG, is_free_for, ms, one, settled};

on_every_backend!(
    many_holders:
    one_owner_is_in_many_times,
    another_owner_waits_for_the_last,
    a_hold_has_one_fence,
    an_owner_is_not_held_up_by_who_waits,
    a_nested_call_counts_here,
    an_owner_beside_none_is_told_to_be_at_both;
    many_holders_and_seconds:
    a_release_counts_while_renewals_are_on_their_way,
);

async fn one_owner_is_in_many_times(pool: LockPool) {
    let first = one(&pool, "o:order 7").acquire().await.unwrap();
    let again = tokio::spawn(one(&pool, "o:order 7").acquire());
    let second = again.await.unwrap().unwrap();
    assert!(!is_free_for(&pool, "o:order 8").await);
    assert_eq!(second.release().await.unwrap(), Released::StillHeld(1));
    assert!(!is_free_for(&pool, "o:order 8").await);
    assert_eq!(first.release().await.unwrap(), Released::Freed);
    assert!(is_free_for(&pool, "o:order 8").await);
}

async fn another_owner_waits_for_the_last(pool: LockPool) {
    let first = one(&pool, "o:a").acquire().await.unwrap();
    let second = one(&pool, "o:a").acquire().await.unwrap();
    let other = tokio::spawn(one(&pool, "o:b").acquire());
    settled(&pool).await;
    first.release().await.unwrap();
    settled(&pool).await;
    assert!(!other.is_finished());
    second.release().await.unwrap();
    other.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_hold_has_one_fence(pool: LockPool) {
    let first = one(&pool, "o:a").acquire().await.unwrap();
    let second = one(&pool, "o:a").acquire().await.unwrap();
    first.release().await.unwrap();
    let third = one(&pool, "o:a").acquire().await.unwrap();
    let fence = second.fence();
    assert_eq!(third.fence(), fence);
    drop((second, third));
    let next = one(&pool, "o:b").acquire().await.unwrap();
    assert!(next.fence() > fence);
}

async fn an_owner_is_not_held_up_by_who_waits(pool: LockPool) {
    let held = one(&pool, "o:a").acquire().await.unwrap();
    let other = tokio::spawn(one(&pool, "o:b").acquire());
    settled(&pool).await;
    // Behind `b` it would wait for a waiter that waits for it.
    let again = one(&pool, "o:a").acquire().await.unwrap();
    assert!(!other.is_finished());
    drop((held, again));
    drop(other.await.unwrap().unwrap());
}

async fn a_nested_call_counts_here(pool: LockPool) {
    let body = async |outer: &LockGuard| {
        let inner = one(&pool, "o:a").acquire().await.unwrap();
        assert_eq!(outer.hold_count(), 2);
        inner.release().await.unwrap()
    };
    let released = one(&pool, "o:a").run(body).await.unwrap();
    assert_eq!(released, Released::StillHeld(1));
}

/// With and without an owner are two kinds: the server refuses the second, and the error's source
/// says what to change.
async fn an_owner_beside_none_is_told_to_be_at_both(pool: LockPool) {
    let plain = || pool.lock("k").reentrant().ttl(LONG);
    let inner = plain().run(async |_| one(&pool, "o:a").acquire().await.map(drop));
    let outer = one(&pool, "o:a").run(async |_| plain().acquire().await.map(drop));
    for error in [inner.await, outer.await] {
        let said = format!("{:?}", error.unwrap().unwrap_err());
        assert!(
            said.starts_with("Refused: the server refused (k, stored as lock:k)"),
            "{said}"
        );
        assert!(said.ends_with("say the same `owner` at both"), "{said}");
    }
    // An exclusive request, which has no owner to add, does not get that advice.
    let exclusive = one(&pool, "o:a").run(async |_| pool.lock("k").acquire().await.map(drop));
    let said = format!("{:?}", exclusive.await.unwrap().unwrap_err());
    assert!(
        said.ends_with("there is a reentrant lock of the owner `a`"),
        "{said}"
    );
}

async fn a_release_counts_while_renewals_are_on_their_way(pool: LockPool) {
    let busy = |ttl: u64| one(&pool, "o:a").ttl(ms(ttl)).renew_every(ms(10)).acquire();
    let first = busy(30_000).await.unwrap();
    for _ in 0..30 {
        let second = busy(30_000).await.unwrap();
        tokio::time::sleep(ms(9)).await; // sometimes the watchdog has to send the release
        assert_eq!(second.release().await.unwrap(), Released::StillHeld(1));
    }
    assert_eq!(first.release().await.unwrap(), Released::Freed);
}
