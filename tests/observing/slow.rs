//! Slow calls and long holds are warnings that say who held the lock, each once.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockPool, Wait};
use tracing::Level;

use crate::CAP;
use crate::record::{record_at_info, told};

const BOUND: Duration = Duration::from_millis(100);

/// Longer than a look lasts until the next.
const LONG: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_secs(1);

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

/// Of a hold that ends before a second look at it.
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

const HANGS: &str = "has held a lock for longer than `long_hold`, and still holds it";

/// The one warning about a hold under this key, which was told while it lasted.
#[track_caller]
fn check_hangs(key: &str) {
    let [long] = &told(&[key])[..] else {
        panic!("{:?}", told(&[key]))
    };
    assert_eq!(long.level, Level::WARN);
    for says in [HANGS, "held=", "slow.rs:", "namespace="] {
        assert!(long.text.contains(says), "{long:?}");
    }
}

#[tokio::test]
async fn a_hold_that_hangs_is_told_while_it_lasts_and_not_again_at_its_end() {
    record_at_info();
    let server = RedisServer::start();
    let config = Config::new(server.url()).long_hold(BOUND);
    let pool = LockPool::connect(config).await.unwrap();
    let held = pool.lock("hung-hold").renew().acquire().await.unwrap();
    until("it is told", CAP, async || !told(&["hung-hold"]).is_empty()).await;
    check_hangs("hung-hold");
    held.release().await.unwrap();
    check_hangs("hung-hold");
}

/// The task that looks is one lease's, and another's when that ends; nothing else wakes either.
#[tokio::test(start_paused = true)]
async fn in_memory_it_is_told_too_whichever_hold_ends_before() {
    record_at_info();
    let config = Config::new("memory://").long_hold(LONG);
    let pool = LockPool::connect(config).await.unwrap();
    let lock = |key| pool.lock(key).ttl(100 * LONG).acquire();
    let first = lock("hung-first").await.unwrap();
    tokio::time::sleep(LONG / 2).await;
    let second = lock("hung-second").await.unwrap();
    tokio::time::sleep(LONG / 4).await;
    first.release().await.unwrap();
    tokio::time::sleep(LONG).await;
    check_hangs("hung-second");
    let third = lock("hung-third").await.unwrap();
    second.release().await.unwrap();
    tokio::time::sleep(LONG / 2).await;
    assert!(told(&["hung-first"]).is_empty() && told(&["hung-third"]).is_empty());
    tokio::time::sleep(LONG).await;
    third.release().await.unwrap();
    for key in ["hung-second", "hung-third"] {
        check_hangs(key);
    }
}

/// More than one look logs.
#[tokio::test(start_paused = true)]
async fn each_of_many_that_hang_together_is_told_once() {
    record_at_info();
    let config = Config::new("memory://").long_hold(LONG);
    let pool = LockPool::connect(config).await.unwrap();
    let mut held = Vec::new();
    for id in 0..250 {
        let lock = pool.lock(format!("hung-together:{id}.")).renew();
        held.push(lock.acquire().await.unwrap());
    }
    tokio::time::sleep(LONG + 10 * LOOKS).await;
    drop(held);
    for id in 0..250 {
        check_hangs(&format!("hung-together:{id}."));
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
