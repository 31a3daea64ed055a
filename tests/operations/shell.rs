//! Runs the pages' shell blocks in the situations that they are for.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockGuard, LostCause, Wait, distributed_lock};
use dlock_tests::locks;
use tokio::task::JoinHandle;

use crate::page::{block, run};
use crate::pool;

const CAP: Duration = Duration::from_secs(20);

/// A waiter for `item:7` in another process's pool.
async fn waiter(server: &RedisServer) -> JoinHandle<Result<LockGuard, LockError>> {
    let request = pool(server).await.lock("item:7").wait(Wait::Forever);
    let waiter = tokio::spawn(request.acquire());
    locks::until_queued(server, "item:7", 1, CAP).await;
    waiter
}

#[distributed_lock(key = "item:<id>", renew = "50ms")]
async fn purchase(id: u32) -> Result<(), LockError> {
    std::future::pending().await
}

/// Runs an annotated function that never ends; returns when it holds `item:7`.
async fn holder(server: &RedisServer) -> JoinHandle<Result<(), LockError>> {
    let pool = pool(server).await;
    let holder = tokio::spawn(async move { pool.scope(purchase(7)).await });
    until("it is held", CAP, async || {
        server.pttl("lock:item:7").await > 0
    })
    .await;
    holder
}

#[tokio::test]
async fn looking_shows_who_holds_and_who_waits() {
    let server = RedisServer::start();
    let holder = holder(&server).await;
    let waiter = waiter(&server).await;
    let lines = block("Who holds it", 0);
    assert_eq!(lines.len(), 8);
    run(&lines, &server).await;
    assert!(!holder.is_finished() && !waiter.is_finished());
}

/// The block shows the dash that distinguishes a kept key from a held one.
#[tokio::test]
async fn looking_shows_a_key_that_is_nobody_s() {
    let server = RedisServer::start();
    let request = pool(&server).await.lock("item:7");
    let request = request.min_hold(Duration::from_secs(20));
    request.run(async |_| ()).await.unwrap();
    let line = block("Who holds it", 0)[0];
    let (command, held) = line.split_once("  # 1|x|").unwrap();
    run(&[&format!("{command}  # 1|x|-{held}")], &server).await;
}

#[tokio::test]
async fn breaking_a_lock_gives_it_to_the_waiter_and_tells_the_holder() {
    let server = RedisServer::start();
    let holder = holder(&server).await;
    let waiter = waiter(&server).await;
    run(&block("Break a lock", 0), &server).await;
    drop(waiter.await.unwrap().unwrap());
    let LockError::Lost { cause, .. } = holder.await.unwrap().unwrap_err() else {
        panic!("not lost");
    };
    assert_eq!(cause, LostCause::Gone);
}

#[tokio::test]
async fn a_holder_that_does_not_renew_goes_on_beside_the_new_one() {
    let server = RedisServer::start();
    let old = pool(&server).await.lock("item:7").acquire().await.unwrap();
    let waiter = waiter(&server).await;
    run(&block("Break a lock", 0), &server).await;
    let new = waiter.await.unwrap().unwrap();
    assert!(old.is_held() && new.is_held());
    assert!(old.fence() < new.fence());
    let told = old.verify().await.unwrap_err();
    assert!(told.is_lost() && !old.is_held(), "{told}");
}

/// If the lock has another holder by the time of the deletion, nothing is deleted.
#[tokio::test]
async fn breaking_a_lock_that_has_gone_on_deletes_nothing() {
    let server = RedisServer::start();
    let holder = holder(&server).await;
    let mut lines = block("Break a lock", 0);
    let (delete, one) = lines.pop().unwrap().rsplit_once("  # ").unwrap();
    assert_eq!(one, "1");
    let (late, nothing) = ("value=\"${value}0\"", format!("{delete}  # 0"));
    lines.extend([late, nothing.as_str()]);
    run(&lines, &server).await;
    assert!(server.pttl("lock:item:7").await > 0 && !holder.is_finished());
}

#[tokio::test]
async fn a_lock_taken_by_hand_keeps_everybody_out() {
    let server = RedisServer::start();
    let pool = pool(&server).await;
    let lines = block("Break a lock", 1);
    run(&lines[..1], &server).await;
    let request = pool.lock("item:7").wait(Duration::ZERO);
    let busy = request.acquire().await.unwrap_err();
    let text = "held by a program that does not use dlock";
    assert!(busy.to_string().contains(text), "{busy}");
    run(&lines[1..], &server).await;
    drop(pool.lock("item:7").acquire().await.unwrap());
}
