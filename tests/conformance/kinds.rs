//! What holds for every kind of lock, and that a key is of one kind at a time.

use dlock_runtime::{Holder, LockError, LockGuard, LockPool, LockRequest, Refusal, Wait};
use dlock_tests::of_kind;
use tokio::time::Instant;

use crate::backends::{LONG, ms, settled, soon};

on_every_backend!(
    two_kinds_at_one_key_are_refused_on_both_sides,
    another_kind_inside_is_refused_as_well,
    a_waiting_kind_is_refused_as_well,
    a_key_may_change_its_kind_when_it_is_free,
    every_kind_says_who_holds_it,
    every_kind_is_given_back_when_its_future_is_dropped,
    every_kind_is_stopped_when_it_is_lost,
    fair_waiters_are_served_in_the_order_they_came,
    two_kinds_in_one_request_are_a_mistake;
    seconds:
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

fn is_wrong_kind(error: &LockError) -> bool {
    let reason = Refusal::WrongKind;
    matches!(error, LockError::Refused { reason: it, .. } if *it == reason)
}

async fn two_kinds_at_one_key_are_refused_on_both_sides(pool: LockPool) {
    let kinds = |wait: Wait| {
        let request = || pool.lock("k").ttl(LONG).wait(wait);
        [
            ("an exclusive lock", request()),
            ("a read/write lock", request().read()),
            ("a lock with 2 permits", request().permits(2)),
            ("of the owner `a`", request().reentrant().owner("a")),
        ]
    };
    for (held, (there, first)) in kinds(Wait::Once).into_iter().enumerate() {
        let first = first.acquire().await.unwrap();
        for wait in [Wait::Once, Wait::For(LONG)] {
            for (asked, (ours, second)) in kinds(wait).into_iter().enumerate() {
                if asked == held {
                    continue;
                }
                let begun = Instant::now();
                let error = second.acquire().await.unwrap_err();
                assert!(is_wrong_kind(&error), "{ours} at {there}: {error:?}");
                let said = format!("{error:?}");
                // What is there has a number for each entry, and none of its own.
                let there = there.replace(" 2 permits", " permits");
                assert!(said.contains(ours) && said.contains(&there), "{said}");
                assert!(begun.elapsed() < LONG / 3);
            }
        }
        first.verify().await.unwrap();
        first.release().await.unwrap();
    }
}

/// And no `WouldDeadlock`: that would ask for another order, where the key is at fault.
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

async fn a_waiting_kind_is_refused_as_well(pool: LockPool) {
    let held = pool.lock("k").permits(1).ttl(LONG).acquire().await.unwrap();
    let waiting = tokio::spawn(pool.lock("k").permits(1).wait(LONG).acquire());
    settled(&pool).await;
    let error = pool.lock("k").acquire().await.unwrap_err();
    assert!(is_wrong_kind(&error), "{error:?}");
    held.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
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
        assert!(matches!(error, LockError::Config(_)), "{error:?}");
    }
}

async fn every_kind_outlives_a_quick_body_by_its_min_hold(pool: LockPool) {
    for request in every(&pool, "k") {
        let (begun, request) = (Instant::now(), request.min_hold(ms(700)));
        request.run(async |_| ()).await.unwrap();
        let next = pool.lock("k").read().try_acquire().await;
        let is_kept = next.as_ref().map_or_else(is_wrong_kind, Option::is_none);
        let is_read = matches!(&next, Ok(Some(_))); // beside a reader that is kept
        assert!(is_kept || is_read, "{next:?}");
        drop(next);
        soon("it is free", async || {
            pool.holder("k").await.unwrap().is_none()
        })
        .await;
        assert!(begun.elapsed() >= ms(650), "{:?}", begun.elapsed());
    }
}

async fn every_kind_ends_with_its_max_hold(pool: LockPool) {
    for request in every(&pool, "k") {
        let request = request.ttl(ms(1500)).renew().max_hold(ms(2000));
        let body = async |_: &LockGuard| std::future::pending::<()>().await;
        let begun = Instant::now();
        let error = request.run(body).await.unwrap_err();
        assert!(error.to_string().contains("max_hold"), "{error}");
        assert!(begun.elapsed() >= ms(1950), "{:?}", begun.elapsed());
        soon("it is free", async || {
            pool.holder("k").await.unwrap().is_none()
        })
        .await;
    }
}
