//! Up to a number of holders at the same time: never more, no permit is lost, and a request gets
//! all its permits or none.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use dlock_runtime::{LockError, LockGuard, LockPool};
use tokio::time::Instant;

use crate::backends::{LONG, is_free_for, ms, one, settled, soon};

on_every_backend!(
    more_than_there_are_is_a_mistake;
    scripts:
    so_many_and_no_more,
    many_tasks_never_hold_more_than_there_are,
    several_are_taken_together_or_not_at_all,
    a_big_request_is_not_bypassed,
    a_big_request_that_gives_up_lets_the_small_on,
    a_rolling_deploy_changes_the_number,
);

async fn so_many_and_no_more(pool: LockPool) {
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(one(&pool, "p:1/3").acquire().await.unwrap());
    }
    assert!(!is_free_for(&pool, "p:1/3").await);
    held.pop().unwrap().release().await.unwrap();
    assert!(is_free_for(&pool, "p:1/3").await);
    assert!(held.iter().all(LockGuard::is_held));
}

async fn many_tasks_never_hold_more_than_there_are(pool: LockPool) {
    let (inside, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let tasks: Vec<_> = (0..30)
        .map(|task| {
            let (inside, most) = (inside.clone(), most.clone());
            let take = task % 3 + 1;
            let request = one(&pool, "p:1/4").take(take);
            let body = async move |_: &LockGuard| {
                let now = inside.fetch_add(take, Ordering::SeqCst) + take;
                most.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(ms(2)).await;
                inside.fetch_sub(take, Ordering::SeqCst);
            };
            tokio::spawn(async move { request.run(body).await })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    let most = most.load(Ordering::SeqCst);
    assert!((2..=4).contains(&most), "{most} at once");
}

async fn several_are_taken_together_or_not_at_all(pool: LockPool) {
    let held = one(&pool, "p:3/5").acquire().await.unwrap();
    assert!(!is_free_for(&pool, "p:3/5").await);
    assert!(is_free_for(&pool, "p:2/5").await);
    held.release().await.unwrap();
    assert!(is_free_for(&pool, "p:5/5").await);
}

async fn a_big_request_is_not_bypassed(pool: LockPool) {
    let small = one(&pool, "p:1/3").acquire().await.unwrap();
    let big = tokio::spawn(one(&pool, "p:3/3").acquire());
    settled(&pool).await;
    let late = tokio::spawn(one(&pool, "p:1/3").acquire());
    settled(&pool).await;
    assert!(
        !late.is_finished(),
        "two are free, and the big one came before"
    );
    assert!(!is_free_for(&pool, "p:1/3").await);
    small.release().await.unwrap();
    let big = big.await.unwrap().unwrap();
    assert!(!late.is_finished());
    big.release().await.unwrap();
    late.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_big_request_that_gives_up_lets_the_small_on(pool: LockPool) {
    let small = one(&pool, "p:1/3").acquire().await.unwrap();
    let big = tokio::spawn(one(&pool, "p:3/3").acquire());
    settled(&pool).await;
    let late = tokio::spawn(one(&pool, "p:1/3").acquire());
    settled(&pool).await;
    assert!(!late.is_finished());
    let begun = Instant::now();
    big.abort();
    drop(late.await.unwrap().unwrap());
    assert!(begun.elapsed() < LONG / 3);
    drop(small);
    soon("all are back", async || is_free_for(&pool, "p:3/3").await).await;
}

/// From 3 to 5 while both programs run, and back: each request is admitted by its own number.
async fn a_rolling_deploy_changes_the_number(pool: LockPool) {
    let (old, new) = (|| one(&pool, "p:1/3"), || one(&pool, "p:1/5"));
    let mut held = Vec::new();
    for request in [old(), new(), old()] {
        held.push(request.acquire().await.unwrap());
    }
    assert!(!is_free_for(&pool, "p:1/3").await, "three are in use");
    assert!(!is_free_for(&pool, "p:3/5").await);
    held.push(new().take(2).acquire().await.unwrap());
    assert!(!is_free_for(&pool, "p:1/5").await, "five are in use");

    // Back: the request with three waits until two are in use, and no other passes it.
    let three = tokio::spawn(old().acquire());
    settled(&pool).await;
    held.pop().unwrap().release().await.unwrap();
    settled(&pool).await;
    assert!(!three.is_finished(), "three are in use");
    assert!(!is_free_for(&pool, "p:1/5").await, "somebody waits");
    held.pop().unwrap().release().await.unwrap();
    held.push(three.await.unwrap().unwrap());
    assert!(!is_free_for(&pool, "p:1/3").await && is_free_for(&pool, "p:2/5").await);
    for guard in held {
        guard.verify().await.unwrap();
        guard.release().await.unwrap();
    }
    assert!(is_free_for(&pool, "p:5/5").await && is_free_for(&pool, "p:3/3").await);
}

async fn more_than_there_are_is_a_mistake(pool: LockPool) {
    let error = one(&pool, "p:4/3").acquire().await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
}
