//! An uncontended lock costs two commands: an acquire and a release.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockPool, distributed_lock};

use crate::connect;
use crate::record::{Scripts, lines};

const CAP: Duration = Duration::from_secs(10);
const TIMES: usize = 25;

/// The keys that each command names: the lock, the epoch counter and the queue's two keys. A
/// cluster and an ACL need to know them all.
const KEYS: [&str; 4] = [
    "lock:key",
    "lock:@fence",
    "lock:@w:{lock:key}",
    "lock:@a:{lock:key}",
];

/// Runs `once` several times on a warm pool, and checks that clients sent exactly one acquire and
/// one release each time.
async fn check_two_commands(once: impl AsyncFn(&LockPool)) {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let scripts = Scripts::learn(&server, &pool).await;
    let monitor = server.monitor();
    for _ in 0..TIMES {
        once(&pool).await;
    }
    let mut sent = lines(&monitor).await;
    sent.retain(|line| line.by_client);
    assert_eq!(sent.len(), 2 * TIMES, "{sent:#?}");
    for pair in sent.chunks(2) {
        let acquired = Scripts::keys(&scripts.acquire, &pair[0]).expect("an acquire");
        assert_eq!(acquired, KEYS);
        let released = Scripts::keys(&scripts.release, &pair[1]).expect("a release");
        assert_eq!(released, KEYS);
    }
}

#[tokio::test]
async fn acquire_and_release_are_two_commands() {
    check_two_commands(async |pool| {
        let guard = pool.lock("key").acquire().await.unwrap();
        guard.release().await.unwrap();
    })
    .await;
}

/// The watchdog sends nothing before the first renewal.
#[tokio::test]
async fn a_short_renewed_lock_is_two_commands() {
    check_two_commands(async |pool| {
        let guard = pool.lock("key").renew().acquire().await.unwrap();
        assert!(guard.is_held());
        guard.release().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn run_is_two_commands() {
    check_two_commands(async |pool| {
        pool.lock("key").run(async |_| ()).await.unwrap();
    })
    .await;
}

#[distributed_lock(key = "<key>", renew)]
async fn annotated(key: &str) -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

#[tokio::test]
async fn an_annotated_function_is_two_commands() {
    check_two_commands(async |pool| pool.scope(annotated("key")).await.unwrap()).await;
}

/// The watchdog releases a dropped lock, also with one command.
#[tokio::test]
async fn acquire_and_drop_are_two_commands() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let scripts = Scripts::learn(&server, &pool).await;
    let monitor = server.monitor();
    for _ in 0..TIMES {
        // Waits for the cleanup; an acquire before that would fail and be a third command.
        drop(pool.lock("key").acquire().await.unwrap());
        until("it is given back", CAP, async || {
            server.pttl("lock:key").await == -2
        })
        .await;
    }
    let mut sent = lines(&monitor).await;
    sent.retain(|line| line.by_client && line.words[0].starts_with("EVAL"));
    assert_eq!(sent.len(), 2 * TIMES, "{sent:#?}");
    sent.retain(|line| Scripts::keys(&scripts.cancel, line).is_some());
    assert_eq!(sent.len(), TIMES, "{sent:#?}");
}

/// A refused attempt is one command.
#[tokio::test]
async fn trying_for_a_lock_that_is_held_is_one_command() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let scripts = Scripts::learn(&server, &pool).await;
    let _guard = pool.lock("key").acquire().await.unwrap();
    let monitor = server.monitor();
    for _ in 0..TIMES {
        assert!(pool.lock("key").try_acquire().await.unwrap().is_none());
    }
    let mut sent = lines(&monitor).await;
    sent.retain(|line| line.by_client);
    let all = sent.len();
    sent.retain(|line| Scripts::keys(&scripts.acquire, line).is_some());
    assert_eq!((sent.len(), all), (TIMES, TIMES));
}
