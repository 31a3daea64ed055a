//! What only a process of its own can show: its threads, and the table of tokens, which `shutdown`
//! counts.

use std::path::Path;
use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockPool, distributed_lock};
use dlock_tests::alone;
use tokio::time::sleep;

use crate::world::{SOON, patient};
use dlock_harness::polls::at_every_poll;

#[distributed_lock(
    key = "item",
    ttl = "30s",
    wait = "10s",
    renew = "20ms",
    pool = "redis"
)]
async fn on_redis() -> Result<u32, LockError> {
    sleep(Duration::from_millis(25)).await;
    on_memory().await
}

#[distributed_lock(
    key = "item",
    ttl = "30s",
    wait = "10s",
    renew = "20ms",
    pool = "memory"
)]
async fn on_memory() -> Result<u32, LockError> {
    sleep(Duration::from_millis(25)).await;
    Ok(7)
}

fn threads() -> usize {
    Path::new("/proc/self/task").read_dir().unwrap().count()
}

/// Runs a test alone in a new process, on a runtime without worker threads.
fn alone_on_a_runtime(name: &str, test: impl AsyncFnOnce()) {
    alone(name, || {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(test());
    });
}

/// Alone in a new process, with a pool of a server and one in memory: the table of tokens is empty
/// after these calls.
pub(crate) fn leaves_no_token(
    name: &str,
    calls: impl AsyncFnOnce(&RedisServer, &LockPool, &LockPool),
) {
    alone_on_a_runtime(name, async || {
        let server = RedisServer::start();
        let redis = dlock_runtime::init_named("redis", patient(&server.url()));
        let memory = dlock_runtime::init_named("memory", "memory://");
        let (redis, memory) = (redis.await.unwrap(), memory.await.unwrap());
        calls(&server, &redis, &memory).await;
        let drained = dlock_runtime::shutdown().await;
        assert!(drained.is_complete(), "{drained:?}");
    });
}

#[test]
fn the_table_of_tokens_is_empty_after_drops_at_every_poll() {
    let name = "left_behind::the_table_of_tokens_is_empty_after_drops_at_every_poll";
    leaves_no_token(name, async |_, _, _| {
        // These wait for the clean-up of the dropped call before them, too: one more await to be
        // dropped at.
        at_every_poll(async |_| on_redis().await.unwrap(), async |_, _| {}).await;
        at_every_poll(async |_| on_memory().await.unwrap(), async |_, _| {}).await;
    });
}

/// Waits behind another process, alone and with another waiter here, until that process gives the
/// lock back.
#[test]
fn the_table_of_tokens_is_empty_after_waiters_dropped_at_every_poll() {
    let name = "left_behind::the_table_of_tokens_is_empty_after_waiters_dropped_at_every_poll";
    leaves_no_token(name, async |server, pool, _| {
        let other = LockPool::connect(patient(&server.url())).await.unwrap();
        for neighbours in [0, 2] {
            let waits = async |_| {
                let waits = (0..=neighbours).map(async |_| {
                    let wait = pool.lock("item").wait(SOON * 3).acquire().await;
                    wait.unwrap().release().await.unwrap();
                });
                let holder = other.lock("item").wait(SOON * 3).acquire().await.unwrap();
                let holding = async {
                    sleep(Duration::from_millis(5)).await;
                    holder.release().await.unwrap();
                };
                tokio::join!(holding, futures_util::future::join_all(waits));
            };
            at_every_poll(waits, async |_, _| {}).await;
        }
    });
}

/// Tests the check itself: `shutdown` does report a lock that still exists.
#[test]
fn the_table_of_tokens_shows_a_lock_that_is_held() {
    let name = "left_behind::the_table_of_tokens_shows_a_lock_that_is_held";
    leaves_no_token(name, async |_, _, memory| {
        let held = memory.lock("item").ttl(Duration::from_secs(30)).acquire();
        let held = held.await.unwrap();
        assert_eq!(dlock_runtime::shutdown().await.held(), 1);
        drop(held);
    });
}

#[test]
fn threads_and_connections_are_the_pools_and_end_with_it() {
    let name = "left_behind::threads_and_connections_are_the_pools_and_end_with_it";
    alone_on_a_runtime(name, async || {
        let server = RedisServer::start();
        // `until` uses threads of its own; from here on they all exist.
        let mut looks = 0;
        let looked = async || {
            looks += 1;
            looks > 2
        };
        until("time passes", SOON, looked).await;
        let connections = async || {
            server
                .ask::<String>(&["CLIENT", "LIST"])
                .await
                .lines()
                .count()
        };
        let (threads_before, connections_before) = (threads(), connections().await);

        let pool = LockPool::connect(patient(&server.url())).await.unwrap();
        drop(pool.lock("item").acquire().await.unwrap());
        until("both connections are there", SOON, async || {
            connections().await == connections_before + 2
        })
        .await;
        assert_eq!(threads(), threads_before + 1, "the watchdog");
        let call = async |_| {
            pool.lock("item")
                .ttl(Duration::from_secs(30))
                .run(async |_| sleep(Duration::from_millis(1)).await)
                .await
        };
        at_every_poll(call, async |cut, _| {
            assert_eq!(threads(), threads_before + 1, "{cut:?}");
            assert_eq!(connections().await, connections_before + 2, "{cut:?}");
        })
        .await;

        // If clean-ups were left to do, the watchdog would stay for 5 s.
        drop(pool);
        until("the watchdog has ended", SOON, async || {
            threads() == threads_before
        })
        .await;
        until("the connections are closed", SOON, async || {
            connections().await == connections_before
        })
        .await;
    });
}
