//! The server memory that locks and waiters take, compared with the page on capacity.

use std::ops::RangeInclusive;
use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockPool, Wait};
use dlock_tests::patient;

use crate::page::section;

async fn used_memory(server: &RedisServer) -> u64 {
    let info: String = server.ask(&["INFO", "memory"]).await;
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    used.unwrap().trim().parse().unwrap()
}

/// From half to twice of what the page says: versions and allocators differ.
fn about(bytes: u64) -> RangeInclusive<u64> {
    bytes / 2..=bytes * 2
}

#[tokio::test]
async fn a_lock_takes_what_the_page_says() {
    const LOCKS: u64 = 1000;
    assert!(
        section("Commands and bytes")
            .contains("| 340 while it is held, 154 of them the value; `MEMORY USAGE` says 216 |")
    );
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    pool.lock("warm").run(async |_| ()).await.unwrap();
    let before = used_memory(&server).await;
    let mut held = Vec::new();
    for item in 0..LOCKS {
        held.push(pool.lock(format!("item:{item}")).acquire().await.unwrap());
    }
    let each = (used_memory(&server).await - before) / LOCKS;
    assert!(about(340).contains(&each), "{each}");
    let usage: u64 = server.ask(&["MEMORY", "USAGE", "lock:item:7"]).await;
    assert!(about(216).contains(&usage), "{usage}");
    let counter: u64 = server.ask(&["MEMORY", "USAGE", "lock:@fence"]).await;
    assert!(counter <= 2 * 56, "{counter}"); // Valkey 8.1 does not count the key
}

#[tokio::test]
async fn a_waiter_takes_what_the_page_says() {
    assert!(
        section("Commands and bytes")
            .contains("| 2.2 kB for the first process, 0.5 kB for each other |")
    );
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let _held = pool.lock("item:7").acquire().await.unwrap();
    let mut sizes = Vec::new();
    for waiting in 1..=4 {
        let pool = LockPool::connect(patient(server.url())).await.unwrap();
        tokio::spawn(async move { pool.lock("item:7").wait(Wait::Forever).acquire().await });
        let cap = Duration::from_secs(20);
        until("it waits", cap, async || {
            let queue: u64 = server.ask(&["ZCARD", "lock:@a:{lock:item:7}"]).await;
            queue == waiting
        })
        .await;
        let mut size = 0;
        for letter in ["w", "a"] {
            let key = format!("lock:@{letter}:{{lock:item:7}}");
            size += server.ask::<u64>(&["MEMORY", "USAGE", &key]).await;
        }
        sizes.push(size);
    }
    let each = (sizes[3] - sizes[0]) / 3;
    assert!(about(2200).contains(&sizes[0]), "{sizes:?}");
    assert!(about(500).contains(&each), "{sizes:?}");
}

#[tokio::test]
async fn a_lock_with_many_holders_takes_what_the_page_says() {
    let said = "| 1.1 kB for the first at a key, 0.2 kB for each other and each further permit |";
    assert!(section("Commands and bytes").contains(said));
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let usage = async || server.ask(&["MEMORY", "USAGE", "lock:item:7"]).await;
    let _first = pool.lock("item:7").read().acquire().await.unwrap();
    let first: u64 = usage().await;
    assert!(about(1100).contains(&first), "{first}");
    let mut others = Vec::new();
    for _ in 0..100 {
        others.push(pool.lock("item:7").read().acquire().await.unwrap());
    }
    let each = (usage().await - first) / 100;
    assert!(about(200).contains(&each), "{each}");
}

#[tokio::test]
async fn two_keys_take_as_many_commands_as_the_page_says() {
    let said = "| two keys at once that nobody else wants | 3: one acquire, a release each |";
    assert!(section("Commands and bytes").contains(said));
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let both = async || pool.lock_all(["a", "b"]).run(async |_| ()).await.unwrap();
    both().await; // now the server knows the scripts
    let before = server.commandstats("evalsha").await;
    both().await;
    assert_eq!(server.commandstats("evalsha").await - before, 3);
}
