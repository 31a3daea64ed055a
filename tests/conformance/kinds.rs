//! What is true for every kind of lock, and that a key is of one kind at a time.

use dlock_runtime::{Holder, LockError, LockGuard, LockPool, LockRequest, Refusal, Wait};
use dlock_tests::of_kind;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::backends::{LONG, ms, settled, soon};

on_every_backend!(
    two_kinds_in_one_request_are_a_mistake;
    scripts:
    two_kinds_at_one_key_are_refused_on_both_sides,
    another_kind_inside_is_refused_as_well,
    who_waits_has_its_turn_behind_another_kind,
    a_waiting_kind_comes_first,
    a_key_may_change_its_kind_when_it_is_free,
    every_kind_says_who_holds_it,
    every_kind_is_given_back_when_its_future_is_dropped,
    every_kind_is_stopped_when_it_is_lost,
    fair_waiters_are_served_in_the_order_they_came;
    scripts_and_seconds:
    every_kind_outlives_a_quick_body_by_its_min_hold,
    every_kind_ends_with_its_max_hold,
);

/// One request of each kind.
fn every(pool: &LockPool, key: &str) -> Vec<LockRequest> {
    let request = || pool.lock(key).ttl(LONG).wait(LONG);
    vec![
        request(),
        request().fair(),
        request().reentrant(),
        request().read(),
        request().write(),
        request().permits(2),
        request().permits(3).take(3),
        request().reentrant().owner("a"),
    ]
}

/// Runs an action with a request of each kind, on a key of its own, all at the same time, so that
/// waits overlap.
async fn each(pool: &LockPool, act: impl AsyncFn(String, LockRequest)) {
    let act = &act;
    let kinds = (0..every(pool, "k").len()).map(async |kind| {
        let key = format!("k:{kind}");
        let request = every(pool, &key).swap_remove(kind);
        act(key, request).await;
    });
    join_all(kinds).await;
}

fn is_wrong_kind(error: &LockError) -> bool {
    let reason = Refusal::WrongKind;
    matches!(error, LockError::Refused { reason: it, .. } if *it == reason)
}

/// One request of each kind, and how errors describe it as request and as holder.
fn of_each(pool: &LockPool, wait: Wait) -> [(&'static str, LockRequest); 4] {
    let request = || pool.lock("k").ttl(LONG).wait(wait);
    [
        ("an exclusive lock", request()),
        ("a read/write lock", request().read()),
        ("a lock with 2 permits", request().permits(2)),
        ("of the owner `a`", request().reentrant().owner("a")),
    ]
}

/// Refused at once without a wait, and when the wait is over.
async fn two_kinds_at_one_key_are_refused_on_both_sides(pool: LockPool) {
    // The first request waits, because the queue entry of the waiter that gave up last is cleaned
    // up in the background, and may be granted the lock for a moment.
    for (held, (there, first)) in of_each(&pool, Wait::For(LONG)).into_iter().enumerate() {
        let first = first.acquire().await.unwrap();
        for wait in [Wait::Once, Wait::For(ms(100))] {
            for (asked, (ours, second)) in of_each(&pool, wait).into_iter().enumerate() {
                if asked == held {
                    continue;
                }
                let begun = Instant::now();
                let error = second.acquire().await.unwrap_err();
                assert!(is_wrong_kind(&error), "{ours} at {there}: {error:?}");
                let said = format!("{error:?}");
                // The set has a total for each entry, and none of its own, so the error names no
                // number.
                let there = there.replace(" 2 permits", " permits");
                assert!(said.contains(ours) && said.contains(&there), "{said}");
                assert!(begun.elapsed() < LONG / 3);
                assert!(wait == Wait::Once || begun.elapsed() >= ms(95), "it waits");
            }
        }
        first.verify().await.unwrap();
        first.release().await.unwrap();
    }
}

async fn who_waits_has_its_turn_behind_another_kind(pool: LockPool) {
    for (held, (there, first)) in of_each(&pool, Wait::Once).into_iter().enumerate() {
        let mut first = first.acquire().await.unwrap();
        for (asked, (ours, second)) in of_each(&pool, Wait::For(LONG)).into_iter().enumerate() {
            if asked == held {
                continue;
            }
            let mut waiting = tokio::spawn(second.acquire());
            settled(&pool).await;
            assert!(!waiting.is_finished(), "{ours} beside {there}");
            first.verify().await.unwrap();
            first.release().await.unwrap();
            let guard = (&mut waiting).await.unwrap().unwrap();
            guard.verify().await.unwrap();
            // And back, for the next kind.
            let (_, again) = of_each(&pool, Wait::For(LONG))
                .into_iter()
                .nth(held)
                .unwrap();
            let again = tokio::spawn(again.acquire());
            settled(&pool).await;
            assert!(!again.is_finished(), "{there} beside {ours}");
            guard.release().await.unwrap();
            first = again.await.unwrap().unwrap();
        }
        first.release().await.unwrap();
    }
}

/// Not `WouldDeadlock`: that asks for another order, while here the key is at fault.
async fn another_kind_inside_is_refused_as_well(pool: LockPool) {
    let kinds = ["x", "r", "w", "p:1/2", "o:a"];
    let is_one = |pair: [&str; 2]| {
        pair[0] == pair[1] || ["r", "w"].contains(&pair[0]) && ["r", "w"].contains(&pair[1])
    };
    for outer in kinds {
        for inner in kinds.into_iter().filter(|inner| !is_one([outer, inner])) {
            let request = |kind| of_kind(pool.lock("k"), kind).ttl(LONG).wait(LONG);
            let nested = request(outer).run(async |_| request(inner).acquire().await.map(drop));
            let error = nested.await.unwrap().unwrap_err();
            assert!(is_wrong_kind(&error), "{inner} in {outer}: {error:?}");
        }
    }
}

/// No waiter passes the head of the queue, of whatever kind.
async fn a_waiting_kind_comes_first(pool: LockPool) {
    let held = pool.lock("k").read().ttl(LONG).acquire().await.unwrap();
    let alone = tokio::spawn(pool.lock("k").wait(LONG).acquire());
    settled(&pool).await;
    let once = pool.lock("k").read().wait(Wait::Once);
    let error = once.acquire().await.map(drop).unwrap_err();
    assert!(matches!(error, LockError::Busy { .. }), "{error:?}");
    let permits = pool.lock("k").permits(3).acquire().await.unwrap_err();
    assert!(is_wrong_kind(&permits), "{permits:?}");
    let reader = tokio::spawn(pool.lock("k").read().wait(LONG).acquire());
    settled(&pool).await;
    held.release().await.unwrap();
    let alone = alone.await.unwrap().unwrap();
    settled(&pool).await;
    assert!(!reader.is_finished(), "the exclusive lock came before it");
    alone.release().await.unwrap();
    drop(reader.await.unwrap().unwrap());
}

async fn a_key_may_change_its_kind_when_it_is_free(pool: LockPool) {
    for request in every(&pool, "k") {
        request.acquire().await.unwrap().release().await.unwrap();
    }
}

async fn every_kind_says_who_holds_it(pool: LockPool) {
    for request in every(&pool, "k") {
        let held = request.acquire().await.unwrap();
        match pool.holder("k").await.unwrap() {
            Some(Holder::Process(process)) => {
                assert!(process.is_this_process());
                assert!(
                    process.function().contains("kinds.rs"),
                    "{}",
                    process.function()
                );
            }
            other => panic!("{other:?}"),
        }
        held.release().await.unwrap();
        assert!(pool.holder("k").await.unwrap().is_none());
    }
}

async fn every_kind_is_given_back_when_its_future_is_dropped(pool: LockPool) {
    for request in every(&pool, "k") {
        let body = async |_: &LockGuard| std::future::pending::<()>().await;
        let running = tokio::spawn(async move { request.run(body).await });
        soon("it is held", async || {
            pool.holder("k").await.unwrap().is_some()
        })
        .await;
        running.abort();
        soon("it is free", async || {
            pool.holder("k").await.unwrap().is_none()
        })
        .await;
    }
}

async fn every_kind_is_stopped_when_it_is_lost(pool: LockPool) {
    for request in every(&pool, "k") {
        let body = async |_: &LockGuard| std::future::pending::<()>().await;
        let error = request.ttl(ms(200)).run(body).await.unwrap_err();
        assert!(error.is_lost(), "{error:?}");
        soon("it is free", async || {
            pool.holder("k").await.unwrap().is_none()
        })
        .await;
    }
}

async fn fair_waiters_are_served_in_the_order_they_came(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let turns = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..8 {
        let (request, turns) = (pool.lock("k").fair().wait(Wait::Forever), turns.clone());
        let body = async move |_: &LockGuard| turns.lock().unwrap().push(number);
        waiters.push(tokio::spawn(async move { request.run(body).await }));
        settled(&pool).await;
    }
    waiters.remove(3).abort();
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    assert_eq!(*turns.lock().unwrap(), [0, 1, 2, 4, 5, 6, 7]);
}

async fn two_kinds_in_one_request_are_a_mistake(pool: LockPool) {
    let mistakes = [
        pool.lock("k").read().write(),
        pool.lock("k").permits(2).read(),
        pool.lock("k").take(2),
        pool.lock("k").owner("a"),
        pool.lock("k").permits(2).fair(),
        pool.lock("k").permits(0),
    ];
    for request in mistakes {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    }
}

async fn every_kind_outlives_a_quick_body_by_its_min_hold(pool: LockPool) {
    each(&pool, async |key, request| {
        let (begun, request) = (Instant::now(), request.min_hold(ms(700)));
        request.run(async |_| ()).await.unwrap();
        let next = pool.lock(key.as_str()).read().try_acquire().await;
        let is_kept = next.as_ref().map_or_else(is_wrong_kind, Option::is_none);
        let is_read = matches!(&next, Ok(Some(_))); // next to a retired reader
        assert!(is_kept || is_read, "{next:?}");
        drop(next);
        soon("it is free", async || {
            pool.holder(key.as_str()).await.unwrap().is_none()
        })
        .await;
        assert!(begun.elapsed() >= ms(650), "{:?}", begun.elapsed());
    })
    .await;
}

async fn every_kind_ends_with_its_max_hold(pool: LockPool) {
    each(&pool, async |key, request| {
        let request = request.ttl(ms(1500)).renew().max_hold(ms(2000));
        let body = async |_: &LockGuard| std::future::pending::<()>().await;
        let begun = Instant::now();
        let error = request.run(body).await.unwrap_err();
        assert!(error.to_string().contains("max_hold"), "{error}");
        assert!(begun.elapsed() >= ms(1950), "{:?}", begun.elapsed());
        soon("it is free", async || {
            pool.holder(key.as_str()).await.unwrap().is_none()
        })
        .await;
    })
    .await;
}
