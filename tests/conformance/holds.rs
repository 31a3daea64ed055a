//! How long a lock must be held, and how long it may be: `min_hold`, `max_hold`, `max_renewals`.

use dlock_runtime::{Holder, LockError, LockGuard, LockPool, LostCause, Released};
use tokio::time::Instant;

use crate::backends::{LONG, grants_claims, is_free, is_lost, ms, settled, soon};

on_every_backend!(
    min_hold_keeps_no_key_longer_than_its_body_if_that_is_longer,
    min_hold_keeps_nothing_for_who_never_had_the_lock;
    seconds:
    min_hold_keeps_the_key_after_a_body_that_ended_early,
    min_hold_keeps_the_key_of_a_guard_however_it_goes,
    min_hold_may_be_longer_than_a_ttl_that_is_renewed,
    min_hold_counts_from_a_grant_in_turn,
    max_hold_stops_the_body_and_frees_the_key,
    max_hold_ends_a_guard_and_bounds_its_extensions,
    max_renewals_lets_the_lease_run_out_after_the_last;
    by_the_server:
    max_renewals_does_not_count_what_makes_a_grant_in_turn_whole,
);

/// The server counts in whole milliseconds, and by its own clock.
const GRAIN: u64 = 10;

/// Waits for the key and releases it; returns when it was granted.
async fn next(pool: &LockPool) -> Instant {
    let next = pool.lock("k").ttl(LONG).wait(LONG).acquire().await.unwrap();
    let had = Instant::now();
    next.release().await.unwrap();
    had
}

/// Before `until` the lock is busy and shows our process as its holder; a waiter gets it then, long
/// before any lease ends.
async fn stays_until(pool: &LockPool, until: Instant) {
    // For a moment, a dropped guard still holds the key.
    soon(
        "the key is kept for the rest of the time",
        async || match pool.lock("k").wait(ms(0)).acquire().await {
            Err(LockError::Busy {
                holder: Holder::Process(holder),
                left,
                ..
            }) => {
                assert!(holder.is_this_process());
                assert!(holder.function().contains("holds.rs"), "{holder:?}");
                left <= until.duration_since(Instant::now()) + ms(500)
            }
            other => panic!("{other:?}"),
        },
    )
    .await;
    let had = next(pool).await;
    assert!(had + ms(GRAIN) >= until, "{:?} early", until - had);
    let late = had.saturating_duration_since(until);
    assert!(late < LONG / 6, "{late:?} late"); // a poll each second, and a busy machine
}

async fn min_hold_keeps_the_key_after_a_body_that_ended_early(pool: LockPool) {
    let granted = Instant::now();
    let request = pool.lock("k").ttl(LONG).min_hold(ms(3_000));
    assert_eq!(request.run(async |_| 7).await.unwrap(), 7);
    assert!(granted.elapsed() < ms(3_000), "the caller does not wait");
    stays_until(&pool, granted + ms(3_000)).await;
    assert!(is_free(&pool, "k").await);
}

async fn min_hold_keeps_the_key_of_a_guard_however_it_goes(pool: LockPool) {
    for released in [true, false] {
        let granted = Instant::now();
        let request = pool.lock("k").ttl(LONG).min_hold(ms(2_500));
        let held = request.acquire().await.unwrap();
        if released {
            assert_eq!(held.release().await.unwrap(), Released::Freed);
        } else {
            drop(held);
        }
        stays_until(&pool, granted + ms(2_500)).await;
    }
}

async fn min_hold_keeps_no_key_longer_than_its_body_if_that_is_longer(pool: LockPool) {
    let request = pool.lock("k").ttl(LONG).min_hold(ms(200));
    let body = async |_: &_| tokio::time::sleep(ms(300)).await;
    request.run(body).await.unwrap();
    assert!(is_free(&pool, "k").await);
}

async fn min_hold_may_be_longer_than_a_ttl_that_is_renewed(pool: LockPool) {
    let request = pool.lock("k").ttl(ms(1_500)).renew().min_hold(ms(4_000));
    let granted = Instant::now();
    let left = request.run(async |lock| lock.remaining()).await.unwrap();
    assert!(left <= ms(1_500), "the body counts on its ttl: {left:?}");
    stays_until(&pool, granted + ms(4_000)).await;
}

async fn min_hold_counts_from_a_grant_in_turn(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let request = pool.lock("k").ttl(LONG).min_hold(ms(4_000)).wait(LONG);
    let waiter = tokio::spawn(request.run(async |lock| lock.remaining()));
    settled(&pool).await;
    tokio::time::sleep(ms(300)).await; // the time in the queue does not count
    let granted = Instant::now();
    held.release().await.unwrap();
    let left = waiter.await.unwrap().unwrap();
    assert!(left > LONG / 2, "promised before the body began: {left:?}");
    stays_until(&pool, granted + ms(4_000)).await;
}

async fn min_hold_keeps_nothing_for_who_never_had_the_lock(pool: LockPool) {
    let request = || pool.lock("k").ttl(LONG).min_hold(LONG);
    drop(request().acquire()); // nothing is sent before it is polled
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(request().wait(LONG).acquire());
    settled(&pool).await;
    waiter.abort();
    let error = request().wait(ms(50)).acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    held.release().await.unwrap();
    let begun = Instant::now();
    next(&pool).await;
    assert!(begun.elapsed() < LONG / 3, "{:?}", begun.elapsed());
}

/// It is renewed every 100 ms, so its key would stay for a ttl after the end if it were not
/// released then.
async fn max_hold_stops_the_body_and_frees_the_key(pool: LockPool) {
    let ttl = ms(5_000);
    let mut went_on = false;
    let begun = Instant::now();
    let request = pool.lock("k").ttl(ttl).renew_every(ms(100)).max_hold(ttl);
    let (ran, had) = tokio::join!(
        request.run(async |_| {
            tokio::time::sleep(LONG).await;
            went_on = true;
        }),
        async {
            tokio::time::sleep(ms(1)).await;
            next(&pool).await.duration_since(begun)
        }
    );
    is_lost(ran, LostCause::MaxHold);
    assert!(!went_on);
    assert!(had + ms(GRAIN) >= ttl, "before its end: {had:?}");
    assert!(had < ttl + ms(4_000), "not given back: {had:?}");
}

async fn max_hold_ends_a_guard_and_bounds_its_extensions(pool: LockPool) {
    let (ttl, most) = (ms(3_000), ms(4_000));
    let begun = Instant::now();
    let request = pool.lock("k").ttl(ttl).renew().max_hold(most);
    let held = request.acquire().await.unwrap();
    held.extend(LONG).await.unwrap();
    let left = held.remaining();
    assert!(left > ttl && left <= most, "{left:?}");
    assert_eq!(held.lost().await, LostCause::MaxHold);
    let took = begun.elapsed();
    assert!(took + ms(GRAIN) >= most && took < LONG / 3, "{took:?}");
    is_lost(held.extend(LONG).await, LostCause::MaxHold);
    is_lost(held.verify().await, LostCause::MaxHold);
    // The key went with the hold, although the extension had prolonged it to a minute.
    let had = next(&pool).await.duration_since(begun);
    assert!(had < LONG / 2, "{had:?}");
    assert_eq!(held.release().await.unwrap(), Released::NotHeld);
}

/// Lost when its renewals were used up, this long after its grant. Stalls of the machine make it
/// longer, except on a paused clock.
async fn lost_after(least: u64, held: LockGuard, granted: Instant) {
    let real = std::time::Instant::now();
    let cause = held.lost().await;
    let took = granted.elapsed();
    assert_eq!(cause, LostCause::MaxRenewals, "after {took:?}");
    is_lost(held.verify().await, LostCause::MaxRenewals);
    let paused = real.elapsed() < took / 4;
    let slack = ms(if paused { 500 } else { 9_000 });
    assert!(took + ms(GRAIN) >= ms(least), "{took:?}, not {least} ms");
    assert!(took < ms(least) + slack, "{took:?}, not {least} ms");
}

async fn max_renewals_lets_the_lease_run_out_after_the_last(pool: LockPool) {
    let begun = Instant::now();
    let request = pool.lock("k").ttl(ms(6_000)).renew(); // survives a stall of 4 s
    let held = request.max_renewals(2).acquire().await.unwrap();
    // Two renewals and one lease, less its margin.
    lost_after(2 * 2_000 + 6_000 - 62, held, begun).await;
    assert!(next(&pool).await.duration_since(begun) < LONG / 2);
}

/// A grant in turn lasts 3 s, and is extended to the whole ttl one second later, which is also the
/// earliest time of a first renewal.
async fn max_renewals_does_not_count_what_makes_a_grant_in_turn_whole(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let request = pool.lock("k").ttl(ms(4_200)).renew().max_renewals(1);
    let waiter = tokio::spawn(request.wait(LONG).acquire());
    settled(&pool).await;
    let begun = Instant::now();
    held.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    let made_whole = if grants_claims(&pool) { 1_000 } else { 0 };
    lost_after(made_whole + 1_400 + 4_200 - 44, next, begun).await;
}
