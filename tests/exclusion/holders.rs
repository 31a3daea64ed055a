//! Kills holders of every kind: their share of the lock is free when their lease ends, not before,
//! and no other holder is affected.

use std::time::{Duration, Instant};

use dlock_harness::{until, wait};

use crate::fleet::CAP;
use crate::item::{Item, SLACK, TTL, had_after};

/// A process that holds the lock as `killed` is killed. A waiter of kind `waits` gets the lock when
/// that lease ends, even if this process holds the lock as `beside` meanwhile.
async fn comes_back(killed: &str, beside: Option<&str>, waits: &str) {
    let item = Item::new().await;
    let (mut doomed, fence) = item.holds(killed).await;
    let begun = Instant::now();
    let beside = match beside {
        Some(kind) => Some(item.close(kind).await),
        None => None,
    };
    let waiter = item.waits(waits).await;
    until("it was renewed for a ttl", CAP, async || {
        begun.elapsed() > TTL
    })
    .await;
    doomed.kill();
    let since = Instant::now();
    let left = item.left(doomed.pid()).await.expect("it has a lease");
    let (guard, took) = had_after(waiter, since).await;
    assert!(
        took < wait::scaled(left + SLACK),
        "{took:?}, and {left:?} were left"
    );
    // The server can't know that the holder is dead, so it waits for the lease's end.
    let least = left.saturating_sub(Duration::from_millis(100));
    assert!(took >= least, "{took:?}, and {left:?} were left");
    guard.verify().await.unwrap();
    assert!(guard.fence().get() > fence);
    if let Some(beside) = beside {
        beside.verify().await.unwrap();
        beside.release().await.unwrap();
    }
    drop(guard);
    item.nothing_is_left().await;
}

/// One of two holders is killed: the other keeps the lock, which is free when both have ended.
async fn takes_nobody_along(kind: &str, waits: &str) {
    let item = Item::new().await;
    let (mut doomed, _) = item.holds(kind).await;
    let beside = item.close(kind).await;
    let waiter = item.waits(waits).await;
    doomed.kill();
    until("its place is gone", CAP, async || {
        item.left(doomed.pid()).await.is_none()
    })
    .await;
    beside.verify().await.unwrap();
    assert!(!waiter.is_finished());
    let since = Instant::now();
    beside.release().await.unwrap();
    let (guard, took) = had_after(waiter, since).await;
    assert!(took < wait::scaled(SLACK), "it was told: {took:?}");
    drop(guard);
    item.nothing_is_left().await;
}

#[tokio::test]
async fn a_killed_holders_lock() {
    comes_back("x", None, "x").await;
}

#[tokio::test]
async fn a_killed_readers_place() {
    comes_back("r", None, "w").await;
}

#[tokio::test]
async fn a_killed_writers_place() {
    comes_back("w", None, "r").await;
}

#[tokio::test]
async fn a_killed_holders_permit() {
    comes_back("p:1/2", Some("p:1/2"), "p:1/2").await;
}

#[tokio::test]
async fn a_killed_holders_permits_all_at_once() {
    comes_back("p:3/4", Some("p:1/4"), "p:3/4").await;
}

#[tokio::test]
async fn a_killed_owners_entry() {
    comes_back("o:a", None, "o:b").await;
}

#[tokio::test]
async fn a_reader_beside_a_killed_one() {
    takes_nobody_along("r", "w").await;
}

#[tokio::test]
async fn an_owner_in_two_processes_one_of_which_is_killed() {
    takes_nobody_along("o:a", "o:b").await;
}
