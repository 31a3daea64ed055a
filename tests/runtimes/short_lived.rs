//! Runtimes that end with locks in flight, several at a time, while others use the same pool.

use std::thread;
use std::time::Duration;

use dlock_harness::{RedisServer, until_ok};
use dlock_runtime::LockPool;
use dlock_tests::{Seeded, locks, patient};
use tokio::runtime::Runtime;

use crate::visitors::{KEYS_LEFT, leave_in_flight, work};
use crate::{clients, current_thread, multi_thread};

const CAP: Duration = Duration::from_secs(5);
const THREADS: u64 = 4;
const RUNTIMES_EACH: u64 = 6;

/// As `#[tokio::test]` builds them, in both flavours by turns.
fn build(number: u64) -> Runtime {
    match number % 2 {
        0 => current_thread(),
        _ => multi_thread(),
    }
}

fn let_many_end(pool: &LockPool) {
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for round in 0..RUNTIMES_EACH {
                    let number = thread * RUNTIMES_EACH + round;
                    let mut random = Seeded(number);
                    let runtime = build(number);
                    runtime.block_on(work(pool, number, &mut random));
                    runtime.block_on(leave_in_flight(pool, number, &mut random));
                }
            });
        }
    });
}

#[test]
fn runtimes_that_end_give_their_locks_and_connections_back() {
    let (server, runtime) = (RedisServer::start(), build(0));
    let pool = runtime
        .block_on(LockPool::connect(patient(server.url())))
        .unwrap();
    let_many_end(&pool);
    runtime.block_on(async {
        locks::until_none(&server, CAP).await;
        until_ok("two connections are left", CAP, async || {
            let left = clients(&server).await;
            if left.len() <= 2 { Ok(()) } else { Err(left) }
        })
        .await;
    });
}

#[test]
fn runtimes_that_end_give_their_memory_locks_back_at_once() {
    let runtime = build(0);
    let pool = runtime.block_on(LockPool::connect("memory://")).unwrap();
    let_many_end(&pool);
    let holder = |key: String| runtime.block_on(pool.holder(key.as_str())).unwrap();
    assert!(holder("all".to_owned()).is_none());
    for number in 0..THREADS * RUNTIMES_EACH {
        for it in 0..KEYS_LEFT {
            let key = format!("left:{number}:{it}");
            assert!(holder(key.clone()).is_none(), "{key}");
        }
    }
}

/// As users test in parallel: the same keys in every test, and no test waits for another.
#[test]
fn scopes_with_a_memory_pool_each_do_not_meet() {
    thread::scope(|scope| {
        for number in 0..THREADS {
            scope.spawn(move || {
                build(number).block_on(async {
                    let pool = LockPool::connect("memory://").await.unwrap();
                    let _guard = pool.lock("all").acquire().await.unwrap();
                    let other = LockPool::connect("memory://").await.unwrap();
                    work(&other, number, &mut Seeded(number)).await;
                });
            });
        }
    });
}
