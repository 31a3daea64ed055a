//! Slow calls and long holds are warnings that say who held the lock.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockPool, Wait};
use tracing::Level;

use crate::CAP;
use crate::record::{record_at_info, told};

const BOUND: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_slow_call_is_told_while_it_waits_with_the_holder() {
    record_at_info();
    let server = RedisServer::start();
    let holder = Config::new(server.url()).holder_name("the-holder");
    let holder = LockPool::connect(holder).await.unwrap();
    let config = Config::new(server.url()).slow_acquire(BOUND);
    let pool = LockPool::connect(config).await.unwrap();
    let held = holder.lock("slow-call").acquire().await.unwrap();
    let acquire = pool.lock("slow-call").wait(Wait::Forever).acquire();
    let waits = tokio::spawn(acquire);
    until("it is told", CAP, async || !told(&["slow-call"]).is_empty()).await;
    held.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    let [slow] = &told(&["slow-call"])[..] else {
        panic!("{:?}", told(&["slow-call"]))
    };
    assert_eq!(slow.level, Level::WARN);
    for says in [
        "`slow_acquire`",
        "waited=",
        "slow.rs:",
        "holder=",
        "of this process",
    ] {
        assert!(slow.text.contains(says), "{slow:?}");
    }
}

/// Each key waits for longer than the bound; the second is only asked for after the first.
#[tokio::test]
async fn a_call_for_several_keys_is_told_once() {
    record_at_info();
    let server = RedisServer::start();
    let holder = LockPool::connect(server.url()).await.unwrap();
    let config = Config::new(server.url()).slow_acquire(BOUND);
    let pool = LockPool::connect(config).await.unwrap();
    let first = holder.lock("slow-1").acquire().await.unwrap();
    let second = holder.lock("slow-2").acquire().await.unwrap();
    let keys = pool.lock_all(["slow-1", "slow-2"]).wait(Wait::Forever);
    let waits = tokio::spawn(keys.acquire());
    until("it is told", CAP, async || !told(&["slow-1"]).is_empty()).await;
    first.release().await.unwrap();
    tokio::time::sleep(2 * BOUND).await;
    second.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(told(&["slow-1"]).len() + told(&["slow-2"]).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_long_hold_is_told_when_it_ends() {
    record_at_info();
    let config = Config::new("memory://").long_hold(BOUND);
    let pool = LockPool::connect(config).await.unwrap();
    let short = pool.lock("long-hold").acquire().await.unwrap();
    short.release().await.unwrap();
    let long = pool.lock("long-hold").acquire().await.unwrap();
    tokio::time::sleep(BOUND).await;
    assert!(told(&["long-hold"]).is_empty());
    long.release().await.unwrap();
    let [long] = &told(&["long-hold"])[..] else {
        panic!("{:?}", told(&["long-hold"]))
    };
    assert_eq!(long.level, Level::WARN);
    for says in ["`long_hold`", "held=", "slow.rs:"] {
        assert!(long.text.contains(says), "{long:?}");
    }
}

#[tokio::test]
async fn a_bound_of_nothing_is_refused() {
    let config = Config::new("memory://");
    let config = config
        .slow_acquire(Duration::ZERO)
        .long_hold(Duration::ZERO);
    let error = LockPool::connect(config).await.unwrap_err().to_string();
    assert!(
        error.contains("slow_acquire: ") && error.contains("long_hold: "),
        "{error}"
    );
}
