//! An evicted holder hears of it at once, on every server that pushes: long before its next renewal,
//! and without any.
//!
//! A row is the kind of the holder; `>w` is a writer that is downgraded.

use std::pin::pin;
use std::time::Duration;

use dlock_runtime::{Eviction, LockGuard, LockPool, LostCause, Notice};
use dlock_tests::of_kind;
use tokio::time::{Instant, timeout};

use crate::backends::{
    LONG, is_free_for, is_hinted, is_lost, ms, one, running, settled, soon, taken,
};

on_every_backend!(
    pushed:
    with_permits_or_in_order,
    one_of_several_keys,
    a_grant_that_is_not_taken_yet;
    many_holders_pushed:
    of_any_kind,
    a_body_is_stopped_before_its_renewal,
    a_holder_that_waited,
);

/// Of the lease and of the time until its first renewal a small part.
const AT_ONCE: Duration = ms(10_000);

async fn with_permits_or_in_order(pool: LockPool) {
    heard_at_once(&pool, &["fair", "p:2/3", "fair"]).await;
}

async fn of_any_kind(pool: LockPool) {
    heard_at_once(&pool, &["x", "r", "w", ">w", "o:a"]).await;
}

/// The whole guard is lost.
async fn one_of_several_keys(pool: LockPool) {
    let guard = pool.lock_all(["j", "k"]).ttl(LONG).acquire().await.unwrap();
    is_told(&pool, guard, "j and k").await;
}

/// The server's, or that of the holder before it. A process that stalls meanwhile loses its grant to the
/// next waiter, or to nobody.
async fn a_grant_that_is_not_taken_yet(pool: LockPool) {
    let mut tries = 0;
    while !is_evicted_before_it_takes_the_grant(&pool).await {
        tries += 1;
        assert!(tries < 20, "the grant is always gone");
    }
}

/// `false`: the grant was gone before it could be evicted.
async fn is_evicted_before_it_takes_the_grant(pool: &LockPool) -> bool {
    let first = taken(pool).await;
    let mut waits = pin!(one(pool, "x").acquire());
    let queued = async {
        soon("it waits", async || pool.status().unwrap().waiting == 1).await;
        settled(pool).await;
    };
    tokio::select! {
        _ = &mut waits => panic!("it is held"),
        () = queued => {}
    }
    first.release().await.unwrap();
    let is_evicted = try_evict(pool).await;
    let guard = waits.await.unwrap();
    // Where a message carries no grant, a waiter that was evicted before it asked has asked anew.
    let is_anew = is_hinted(pool) && guard.verify().await.is_ok();
    if !is_evicted || is_anew {
        guard.release().await.unwrap();
        return false;
    }
    let lost = timeout(AT_ONCE, guard.lost()).await;
    assert_eq!(lost, Ok(LostCause::Gone));
    true
}

/// Not only when the watchdog looks, once a second: at its last look it has done what there was.
async fn heard_at_once(pool: &LockPool, rows: &[&str]) {
    let mut took = Vec::new();
    for row in rows {
        let kind = row.trim_start_matches('>');
        let guard = one(pool, kind).acquire().await.unwrap();
        if *row != kind {
            guard.downgrade().await.unwrap();
        }
        let begun = Instant::now();
        is_told(pool, guard, row).await;
        took.push(begun.elapsed());
        assert!(is_free_for(pool, kind).await, "{row}");
    }
    let fastest = took.iter().skip(1).min();
    assert!(fastest < Some(&ms(500)), "{took:?}");
}

/// Evicts the only holder of the lock `k`.
async fn evict(pool: &LockPool) {
    assert!(try_evict(pool).await, "it is held");
}

/// `false`: nobody held it.
async fn try_evict(pool: &LockPool) -> bool {
    let admin = pool.admin();
    let lock = admin.show("k").await.unwrap();
    let Some(holder) = lock.as_ref().and_then(|lock| lock.holders().first()) else {
        return false;
    };
    let evicted = admin.evict("k", holder.fingerprint()).await.unwrap();
    if let Eviction::Done(notice) = evicted {
        assert_eq!(notice, Notice::Sent);
    }
    matches!(evicted, Eviction::Done(_))
}

async fn is_told(pool: &LockPool, guard: LockGuard, row: &str) {
    assert!(guard.is_held());
    evict(pool).await;
    let lost = timeout(AT_ONCE, guard.lost()).await;
    assert_eq!(lost, Ok(LostCause::Gone), "{row}");
    assert!(!guard.is_held(), "{row}");
}

async fn a_body_is_stopped_before_its_renewal(pool: LockPool) {
    for kind in ["x", "w"] {
        let body = of_kind(pool.lock("k"), kind).ttl(LONG).renew();
        let body = body.run(async |_| std::future::pending::<()>().await);
        let evicts = async {
            running(&pool, 1).await;
            evict(&pool).await;
        };
        let both = async { tokio::join!(body, evicts) };
        let (ended, ()) = timeout(AT_ONCE, both).await.expect("it is stopped");
        is_lost(ended, LostCause::Gone);
    }
}

/// By the server, or by the holder before it: then it holds by that one's entry.
async fn a_holder_that_waited(pool: LockPool) {
    let first = taken(&pool).await;
    let waits = tokio::spawn(one(&pool, "x").acquire());
    soon("it waits", async || pool.status().unwrap().waiting == 1).await;
    settled(&pool).await;
    first.release().await.unwrap();
    let guard = waits.await.unwrap().unwrap();
    is_told(&pool, guard, "waited").await;
}
