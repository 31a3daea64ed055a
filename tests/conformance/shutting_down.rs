//! `shutdown` of a pool, and of the global pools while others wait. That ends the global pools for
//! good, so each such test runs in a process of its own.

use dlock_runtime::{LockError, LockPool, Wait};

use crate::backends::{LONG, ms, patient, settled};
use crate::global::alone_on;

on_every_backend!(a_pool_that_is_shut_down_gives_back_what_was_dropped);

/// Includes guards that were dropped just before, which nothing else waits for at the end of
/// `main`.
async fn a_pool_that_is_shut_down_gives_back_what_was_dropped(pool: LockPool) {
    let held = [pool.lock("a"), pool.lock("b")].map(|it| it.ttl(LONG).acquire());
    let held = futures_util::future::try_join_all(held).await.unwrap();
    let begun = tokio::time::Instant::now();
    drop(held);
    let drained = pool.shutdown().await;
    assert!(drained.is_complete(), "{drained:?}");
    assert!(begun.elapsed() < ms(4_500), "not by the five seconds");
    for key in ["a", "b"] {
        assert!(pool.holder(key).await.unwrap().is_none());
    }
    let refused = pool.clone().lock("a").acquire().await;
    assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
}

/// Waiters for one key (three of them), for another key, and for a key of a named pool; all keys
/// stay held.
async fn waiters_are_sent_away(url: &str) {
    let pool = dlock_runtime::init(patient(url)).await.unwrap();
    let named = dlock_runtime::init_named("billing", patient(url).namespace("billing:"));
    let named = named.await.unwrap();
    let held = [pool.lock("k"), pool.lock("k2"), named.lock("k")].map(|it| it.ttl(LONG).acquire());
    let held = futures_util::future::try_join_all(held).await.unwrap();
    let keys = [
        (&pool, "k"),
        (&pool, "k"),
        (&pool, "k"),
        (&pool, "k2"),
        (&named, "k"),
    ];
    let waits = [Wait::Forever, Wait::For(LONG)].into_iter().cycle();
    let waiters = keys.into_iter().zip(waits);
    let waiters: Vec<_> = waiters
        .map(|((pool, key), wait)| tokio::spawn(pool.lock(key).wait(wait).acquire()))
        .collect();
    settled(&pool).await;
    settled(&named).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));

    let shutdown = tokio::spawn(dlock_runtime::shutdown());
    for waiter in waiters {
        let refused = waiter.await.unwrap();
        assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    }
    assert!(!shutdown.is_finished(), "the holders are still there");
    let begun = tokio::time::Instant::now();
    drop(held);
    // The waiters that were sent away have left nothing to clean up.
    assert!(shutdown.await.unwrap().is_complete());
    assert!(begun.elapsed() < ms(4_500), "not by the five seconds");
}

#[test]
fn shutdown_sends_waiters_away_on_memory() {
    alone_on(
        "shutting_down::shutdown_sends_waiters_away_on_memory",
        false,
        waiters_are_sent_away("memory://"),
    );
}

#[test]
fn shutdown_sends_waiters_away_on_redis() {
    alone_on(
        "shutting_down::shutdown_sends_waiters_away_on_redis",
        false,
        async {
            let server = dlock_harness::RedisServer::start();
            waiters_are_sent_away(&server.url()).await;
            // No queue entry is left either, nor a waiter that could be granted the lock.
            assert_eq!(server.keys().await, ["billing:@fence", "lock:@fence"]);
        },
    );
}
