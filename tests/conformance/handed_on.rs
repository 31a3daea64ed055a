//! Local hand-off: a lock goes from its holder to the next waiter of the process. What it must
//! never change, and when it must not happen.
//!
//! The last ten bits of a fence count the hand-offs since the lock's grant.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use dlock_runtime::{Batch, Config, Fence, LockError, LockGuard, LockPool, LockRequest, LostCause};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backends::{LONG, grants_claims, handing_on, ms, settled};

on_every_backend!(
    handed_on:
    fences_rise_within_a_chain_and_from_chain_to_chain,
    a_chain_ends_after_so_many,
    a_waiter_has_its_own_bounds,
    the_end_of_a_body_gives_back_nothing_that_is_handed_on,
    a_lock_that_is_lost_is_not_handed_on,
    a_lock_that_was_extended_is_not_handed_on,
    who_asks_for_longer_is_granted_by_the_server,
    a_key_that_is_kept_is_not_handed_on,
    who_is_fair_is_granted_by_the_server,
    no_waiter_waits_for_the_end_of_a_chain,
    who_was_chosen_may_go_away;
    handed_on_with_writes:
    a_lock_is_not_handed_on_while_a_write_may_come_late,
    a_guard_that_was_kept_asks_and_writes_nothing_under_the_next_holder,
);

fn request(pool: &LockPool) -> LockRequest {
    pool.lock("k").ttl(LONG).wait(LONG)
}

/// A data key in the slot of the lock.
const DATA: &str = "data{lock:k}";

fn handed_on(fence: Fence) -> u64 {
    fence.get() % 1024
}

/// The fences of a holder and `count` waiters behind it, in the order in which they had the lock.
async fn row(pool: &LockPool, count: usize) -> Vec<Fence> {
    let fences = Arc::new(Mutex::new(Vec::new()));
    let held = request(pool).acquire().await.unwrap();
    fences.lock().unwrap().push(held.fence());
    let wait = |_| {
        let (request, fences) = (request(pool), fences.clone());
        tokio::spawn(request.run(async move |lock: &LockGuard| {
            fences.lock().unwrap().push(lock.fence());
        }))
    };
    let waiters: Vec<JoinHandle<_>> = (0..count).map(wait).collect();
    settled(pool).await;
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    let fences = fences.lock().unwrap();
    fences.clone()
}

async fn fences_rise_within_a_chain_and_from_chain_to_chain(pool: LockPool) {
    let mut fences = row(&pool, 5).await;
    fences.extend(row(&pool, 5).await);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    let numbers: Vec<u64> = fences.into_iter().map(handed_on).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
}

async fn a_chain_ends_after_so_many(pool: LockPool) {
    let fences = row(&pool, 20).await;
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    let numbers: Vec<u64> = fences.into_iter().map(handed_on).collect();
    assert_eq!(
        numbers,
        [(0..=16).collect::<Vec<u64>>(), (0..=3).collect()].concat()
    );
}

/// Queues a waiter behind a holder, releases the lock, and returns the waiter's guard.
async fn behind(held: LockGuard, pool: &LockPool, waiter: LockRequest) -> LockGuard {
    let waiter = tokio::spawn(waiter.acquire());
    settled(pool).await;
    held.release().await.unwrap();
    waiter.await.unwrap().unwrap()
}

async fn a_waiter_has_its_own_bounds(pool: LockPool) {
    let held = request(&pool).acquire().await.unwrap();
    let begun = Instant::now();
    // The lease survives a stall of 2 s.
    let waiter = request(&pool).ttl(ms(3_000)).renew().max_hold(ms(3_500));
    let next = behind(held, &pool, waiter).await;
    assert_eq!(handed_on(next.fence()), 1);
    assert!(next.remaining() <= ms(3_000), "{:?}", next.remaining());
    assert_eq!(next.lost().await, LostCause::MaxHold);
    assert!(begun.elapsed() >= ms(3_500), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < LONG / 2, "{:?}", begun.elapsed());
    let after = request(&pool).acquire().await.unwrap();
    assert!(after.fence() > next.fence());
}

async fn the_end_of_a_body_gives_back_nothing_that_is_handed_on(pool: LockPool) {
    let (tell, told) = tokio::sync::oneshot::channel();
    let before = request(&pool).run(async |lock: &LockGuard| {
        let waiter = tokio::spawn(request(&pool).acquire());
        settled(&pool).await;
        let _ = tell.send(waiter);
        lock.fence()
    });
    let first = before.await.unwrap();
    let next = told.await.unwrap().await.unwrap().unwrap();
    assert_eq!(next.fence().get(), first.get() + 1);
    next.verify().await.unwrap();
    let other = pool.lock("k").try_acquire().await.unwrap();
    assert!(other.is_none(), "it was given back");
}

async fn a_lock_that_is_lost_is_not_handed_on(pool: LockPool) {
    let held = request(&pool).ttl(ms(300)).acquire().await.unwrap();
    let waiter = tokio::spawn(request(&pool).acquire());
    assert_eq!(held.lost().await, LostCause::Deadline);
    drop(held);
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(handed_on(next.fence()), 0);
    next.verify().await.unwrap();
}

async fn a_lock_that_was_extended_is_not_handed_on(pool: LockPool) {
    let held = request(&pool).acquire().await.unwrap();
    held.extend(LONG * 2).await.unwrap();
    let next = behind(held, &pool, request(&pool)).await;
    assert_eq!(handed_on(next.fence()), 0);
}

async fn who_asks_for_longer_is_granted_by_the_server(pool: LockPool) {
    let held = request(&pool).acquire().await.unwrap();
    let next = behind(held, &pool, request(&pool).ttl(LONG * 2)).await;
    assert_eq!(handed_on(next.fence()), 0);
}

async fn a_key_that_is_kept_is_not_handed_on(pool: LockPool) {
    let held = request(&pool).min_hold(ms(300)).acquire().await.unwrap();
    let next = behind(held, &pool, request(&pool)).await;
    assert_eq!(handed_on(next.fence()), 0);
    let kept = behind(next, &pool, request(&pool).min_hold(ms(300))).await;
    assert_eq!(handed_on(kept.fence()), 0);
}

async fn who_is_fair_is_granted_by_the_server(pool: LockPool) {
    let held = request(&pool).fair().acquire().await.unwrap();
    let next = behind(held, &pool, request(&pool).fair()).await;
    assert_eq!(handed_on(next.fence()), 0);
}

/// If a lock can't be handed on locally, the waiter asks the server at once, not when the second is
/// over in which a hand-off could have come. A bug would show in every round; a stalled machine
/// only in one.
async fn no_waiter_waits_for_the_end_of_a_chain(pool: LockPool) {
    let request = || request(&pool);
    let mut took = Vec::new();
    while took.len() < 5 {
        let extended = request().acquire().await.unwrap();
        extended.extend(LONG * 2).await.unwrap();
        let begun = Instant::now();
        let next = behind(extended, &pool, request()).await;
        let longer = behind(next, &pool, request().ttl(LONG * 2)).await;
        let next = behind(longer, &pool, request()).await;
        let keeps = behind(next, &pool, request().min_hold(ms(10))).await;
        took.push(begun.elapsed());
        keeps.release().await.unwrap();
        if took.last() < Some(&ms(900)) {
            return;
        }
    }
    panic!("{took:?}");
}

async fn who_was_chosen_may_go_away(pool: LockPool) {
    let held = request(&pool).acquire().await.unwrap();
    let chosen = tokio::spawn(request(&pool).acquire());
    settled(&pool).await;
    let behind_it = tokio::spawn(request(&pool).acquire());
    settled(&pool).await;
    drop(held); // on one thread, no task has been woken yet
    chosen.abort();
    let next = behind_it.await.unwrap().unwrap();
    assert_eq!(handed_on(next.fence()), 1, "what was offered is inherited");
    next.verify().await.unwrap();
    let alone = tokio::spawn(request(&pool).acquire());
    settled(&pool).await;
    drop(next);
    alone.abort();
    assert!(alone.await.is_err());
    // No waiter took the grant, so the lock was released.
    drop(request(&pool).acquire().await.unwrap());
}

async fn a_lock_is_not_handed_on_while_a_write_may_come_late(pool: LockPool) {
    let held = request(&pool).acquire().await.unwrap();
    let batch = Batch::new().set(DATA, "late");
    let mut write = Box::pin(held.write(&batch));
    let polled = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    drop(write);
    assert_eq!(
        polled.is_pending(),
        grants_claims(&pool),
        "memory answers at once"
    );
    let next = behind(held, &pool, request(&pool)).await;
    assert_eq!(handed_on(next.fence()), u64::from(polled.is_ready()));
    next.write(&Batch::new().del(DATA)).await.unwrap();
    let last = behind(next, &pool, request(&pool)).await;
    assert!(
        handed_on(last.fence()) > 0,
        "what was answered comes no more"
    );
}

async fn a_guard_that_was_kept_asks_and_writes_nothing_under_the_next_holder(pool: LockPool) {
    let (tell, told) = tokio::sync::oneshot::channel();
    let before = request(&pool).reentrant().run(async |_: &LockGuard| {
        let kept = request(&pool).reentrant().acquire().await.unwrap();
        let waiter = tokio::spawn(request(&pool).acquire());
        settled(&pool).await;
        let _ = tell.send((kept, waiter));
    });
    before.await.unwrap();
    let (kept, waiter) = told.await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(handed_on(next.fence()), 1);
    let errors = [
        kept.verify().await.unwrap_err(),
        kept.write(&Batch::new().set(DATA, "late"))
            .await
            .unwrap_err(),
        kept.extend(LONG).await.unwrap_err(),
    ];
    for error in errors {
        let gone = matches!(
            error,
            LockError::Lost {
                cause: LostCause::Gone,
                ..
            }
        );
        assert!(gone, "{error}");
    }
    next.verify().await.unwrap();
}

/// No waiter sleeps while the lock is free. On a paused clock this takes no time.
mod nobody_sleeps {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn when_the_next_waiter_cannot_have_it_from_its_holder() {
        let config = handing_on(Config::new("memory://"));
        let pool = LockPool::connect(config).await.unwrap();
        let held = request(&pool).acquire().await.unwrap();
        let begun = Instant::now();
        let next = behind(held, &pool, request(&pool).ttl(LONG * 2)).await;
        assert_eq!(handed_on(next.fence()), 0);
        assert_eq!(begun.elapsed(), ms(0));
    }

    #[tokio::test(start_paused = true)]
    async fn when_a_lock_that_came_in_turn_is_held_for_longer() {
        let pool = LockPool::connect("memory://").await.unwrap();
        let past_the_queue = pool.lock("k").try_acquire().await.unwrap().unwrap();
        let [first, second] = [(); 2].map(|()| tokio::spawn(request(&pool).acquire()));
        settled(&pool).await;
        past_the_queue.release().await.unwrap();
        let first = first.await.unwrap().unwrap();
        // Too long for a local hand-off, but before the next poll.
        tokio::time::sleep(ms(100)).await;
        let later = tokio::spawn(request(&pool).fair().acquire());
        settled(&pool).await;
        first.release().await.unwrap();
        let second = second.await.unwrap().unwrap();
        let fence = second.fence();
        second.release().await.unwrap();
        let later = later.await.unwrap().unwrap();
        assert!(
            fence < later.fence(),
            "the place of the second comes before the later one's"
        );
    }
}
