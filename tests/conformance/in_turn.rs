//! A lock that was granted in turn behaves like one that was free, whatever keeps its holder from
//! confirming it; and what happens to a waiter whose key loses its time to live.

use dlock_harness::RedisServer;
use dlock_runtime::{LockError, LockPool, Refusal, Wait};
use tokio::time::advance;

use crate::backends::{LONG, ms, nothing_left, patient, settled};

/// A body on `memory://` that blocks its runtime, which is also the one that runs the watchdog.
#[tokio::test]
async fn a_body_may_block_its_runtime_for_as_long_as_its_ttl() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("k").acquire().await.unwrap();
    let request = pool.lock("k").ttl(LONG).wait(Wait::Forever);
    let blocking = tokio::spawn(request.run(async |_| std::thread::sleep(ms(4000))));
    settled(&pool).await;
    held.release().await.unwrap();
    blocking.await.unwrap().unwrap();
}

/// A test that advances the paused clock.
#[tokio::test(start_paused = true)]
async fn a_test_may_move_the_clock_on_by_as_much_as_the_ttl() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("k").acquire().await.unwrap();
    let request = pool.lock("k").ttl(LONG).wait(Wait::Forever);
    let waiter = tokio::spawn(request.acquire());
    settled(&pool).await;
    held.release().await.unwrap();
    let lock = waiter.await.unwrap().unwrap();
    advance(LONG * 9 / 10).await;
    assert!(lock.is_held());
    lock.release().await.unwrap();
}

/// A waiter queues behind a foreign key, and another client removes the key's time to live: the waiter
/// repairs it, if it may.
#[tokio::test]
async fn a_waiter_behind_a_key_that_loses_its_ttl_is_told_or_repairs_it() {
    let server = RedisServer::start();
    let config = || patient(server.url());
    for (config, may_repair) in [
        (config(), false),
        (config().repair_missing_ttl(ms(500)), true),
    ] {
        let pool = LockPool::connect(config).await.unwrap();
        server.cmd(&["SET", "lock:k", "x", "PX", "60000"]).await;
        let request = pool.lock("k").wait(Wait::Forever);
        let waiter = tokio::spawn(request.run(async |_| ()));
        settled(&pool).await;
        server.cmd(&["PERSIST", "lock:k"]).await;
        let ended = tokio::time::timeout(LONG, waiter).await;
        match ended.expect("it notices").unwrap() {
            Ok(()) => assert!(may_repair),
            Err(LockError::Refused { reason, .. }) if !may_repair => {
                assert_eq!(reason, Refusal::NoTtl);
                server.cmd(&["DEL", "lock:k"]).await;
            }
            Err(error) => panic!("{error:?}"),
        }
        nothing_left(&server).await;
    }
}
