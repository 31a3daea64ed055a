//! Guards that end where there is no runtime.

use std::thread;
use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_runtime::{LockGuard, LockPool, LostCause, Released};
use dlock_tests::{locks, patient};

use crate::block_on::block_on;
use crate::current_thread;

/// The lease is 30 s, so a key that is gone by then was given back.
const SOON: Duration = Duration::from_secs(3);
const TTL: Duration = Duration::from_secs(30);

async fn guard_of(url: &str) -> LockGuard {
    let pool = LockPool::connect(patient(url)).await.unwrap();
    pool.lock("key").ttl(TTL).acquire().await.unwrap()
}

#[test]
fn a_guard_that_outlives_its_runtime_is_held_until_it_is_dropped() {
    let (server, runtime) = (RedisServer::start(), current_thread());
    let guard = runtime.block_on(guard_of(&server.url()));
    drop(runtime);
    assert!(guard.is_held());
    let other = current_thread();
    assert!(other.block_on(server.pttl("lock:key")) > 20_000);
    drop(guard);
    other.block_on(locks::until_none(&server, SOON));
}

#[test]
fn release_works_on_any_executor() {
    let (server, runtime) = (RedisServer::start(), current_thread());
    let guard = runtime.block_on(guard_of(&server.url()));
    let released = thread::spawn(move || block_on(guard.release())).join();
    assert_eq!(released.unwrap().unwrap(), Released::Freed);
    assert_eq!(runtime.block_on(server.pttl("lock:key")), -2);
}

#[test]
fn release_on_any_executor_tells_that_the_lock_was_gone() {
    let (server, runtime) = (RedisServer::start(), current_thread());
    let guard = runtime.block_on(guard_of(&server.url()));
    runtime.block_on(server.cmd(&["DEL", "lock:key"]));
    let released = thread::spawn(move || block_on(guard.release())).join();
    assert_eq!(released.unwrap().unwrap(), Released::NotHeld);
}

#[test]
fn a_memory_lock_is_free_as_soon_as_its_guard_is_dropped_anywhere() {
    let runtime = current_thread();
    let pool = runtime.block_on(LockPool::connect("memory://")).unwrap();
    let acquire = || {
        runtime
            .block_on(pool.lock("key").renew().acquire())
            .unwrap()
    };
    let release = |guard: LockGuard| {
        assert_eq!(block_on(guard.release()).unwrap(), Released::Freed);
    };
    for end in [drop::<LockGuard> as fn(LockGuard), release] {
        let guard = acquire();
        thread::spawn(move || end(guard)).join().unwrap();
        assert!(block_on(pool.holder("key")).unwrap().is_none());
    }
}

/// The lease was watched by a task of the runtime that took the lock: it is lost at once, for
/// nothing would notice its deadline.
#[test]
fn a_memory_lock_is_lost_with_its_runtime() {
    let (doomed, runtime) = (current_thread(), current_thread());
    let pool = runtime.block_on(LockPool::connect("memory://")).unwrap();
    let guard = doomed.block_on(pool.lock("key").renew().acquire()).unwrap();
    assert!(guard.is_held());
    drop(doomed);
    assert_eq!(block_on(guard.lost()), LostCause::Watchdog);
    assert!(!guard.is_held());
    let next = runtime.block_on(pool.lock("key").try_acquire()).unwrap();
    assert!(next.is_some_and(|next| next.fence() > guard.fence()));
}
