//! The actix layout: a current-thread runtime on each worker thread, one pool for all; and one
//! handler blocks its thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dlock_harness::{RedisServer, until, until_blocking};
use dlock_runtime::{LockError, LockPool, distributed_lock};
use dlock_tests::{locks, patient};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use crate::{clients, current_thread};

const CAP: Duration = Duration::from_secs(10);
const TTL: Duration = Duration::from_secs(3);
const WORKERS: usize = 4;

/// Blocks for two leases; checks that the lock is still the caller's, as the server sees it.
#[distributed_lock(key = "blocking", ttl = "3s", renew = "200ms", guard = lock)]
async fn blocking(began: &AtomicBool, over: &AtomicBool) -> Result<(), LockError> {
    began.store(true, Ordering::SeqCst);
    thread::sleep(TTL * 2);
    let held = lock.is_held();
    over.store(true, Ordering::SeqCst);
    assert!(held, "lost while its runtime was blocked");
    lock.verify().await
}

#[distributed_lock(key = "shared", wait = "20s")]
async fn quick() -> Result<(), LockError> {
    tokio::task::yield_now().await;
    Ok(())
}

/// Takes turns with the other workers, and checks the blocked worker's lock until that one is done;
/// returns how often.
async fn work_beside(pool: &LockPool, over: &AtomicBool) -> u32 {
    let mut turns = 0;
    loop {
        pool.scope(quick()).await.unwrap();
        let taken = pool.lock("blocking").try_acquire().await.unwrap();
        if over.load(Ordering::SeqCst) {
            return turns;
        }
        assert!(taken.is_none(), "somebody else got the blocked one's lock");
        turns += 1;
    }
}

#[test]
fn a_blocked_runtime_keeps_its_lock_and_holds_up_no_other() {
    let server = RedisServer::start();
    let runtime = current_thread();
    let pool = runtime
        .block_on(LockPool::connect(patient(server.url())))
        .unwrap();
    let (began, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let blocked =
            scope.spawn(|| current_thread().block_on(pool.scope(blocking(&began, &over))));
        until_blocking("it blocks", CAP, || began.load(Ordering::SeqCst));
        let others: Vec<_> = (1..WORKERS)
            .map(|_| {
                scope.spawn(|| {
                    let work = work_beside(&pool, &over);
                    LocalSet::new().block_on(&current_thread(), work)
                })
            })
            .collect();
        for other in others {
            let turns = other.join().unwrap();
            assert!(turns >= 5, "only {turns} turns beside a blocked runtime");
        }
        blocked.join().unwrap().unwrap();
    });
    runtime.block_on(async {
        until("the workers' connections end with them", CAP, async || {
            clients(&server).await.len() <= 2
        })
        .await;
        locks::until_none(&server, CAP).await;
    });
}

#[test]
fn each_runtime_has_a_connection_of_its_own() {
    let server = RedisServer::start();
    let workers: Vec<Runtime> = (0..WORKERS).map(|_| current_thread()).collect();
    let first = &workers[0];
    let pool = first
        .block_on(LockPool::connect(patient(server.url())))
        .unwrap();
    for (number, worker) in workers.iter().enumerate() {
        for _ in 0..3 {
            worker.block_on(pool.scope(quick())).unwrap();
        }
        // The watchdog has had nothing to do yet, and connects when it has.
        let expected = number + 1;
        first.block_on(until("each has one", CAP, async || {
            clients(&server).await.len() == expected
        }));
    }
}
