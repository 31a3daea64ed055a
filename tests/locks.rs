//! What a server has of locks: who waits for one, whose heartbeats have lapsed, what is left.

use std::time::Duration;

use dlock_harness::{RedisServer, until, until_ok};

/// The entries of a lock's queue, in order.
pub async fn queue(server: &RedisServer, key: &str) -> Vec<String> {
    let queue = format!("lock:@w:{{lock:{key}}}");
    server.ask(&["ZRANGE", &queue, "0", "-1"]).await
}

/// Waits until so many stand in a lock's queue.
/// # Panics
/// If they do not within this time.
pub async fn until_queued(server: &RedisServer, key: &str, many: usize, cap: Duration) {
    until_ok(&format!("{many} in the queue"), cap, async || {
        let there = queue(server, key).await;
        (there.len() == many).then_some(()).ok_or(there)
    })
    .await;
}

/// Waits until the heartbeats of so many in a lock's queue have lapsed.
/// # Panics
/// If they have not within this time.
pub async fn until_lapsed(server: &RedisServer, key: &str, many: usize, cap: Duration) {
    let beats = format!("lock:@a:{{lock:{key}}}");
    until("they count as dead", cap, async || {
        let now = time(server).await.to_string();
        let lapsed: usize = server.ask(&["ZCOUNT", &beats, "-inf", &now]).await;
        lapsed == many
    })
    .await;
}

/// Waits until only the fence counter is left.
/// # Panics
/// If more is left after this time.
pub async fn until_none(server: &RedisServer, cap: Duration) {
    until_ok("nothing is left but the counter", cap, async || {
        let left = server.keys().await;
        (left == ["lock:@fence"]).then_some(()).ok_or(left)
    })
    .await;
}

/// Waits until only fence counters are left at each.
/// # Panics
/// If more is left at one after this time.
pub async fn until_only_counters(servers: &[RedisServer], cap: Duration) {
    for server in servers {
        until_ok("only counters are left", cap, async || {
            let left = server.keys().await;
            let is_counter = |key: &String| key.contains("@fence");
            left.iter().all(is_counter).then_some(()).ok_or(left)
        })
        .await;
    }
}

/// The server's clock, in µs.
pub async fn time(server: &RedisServer) -> u64 {
    let (seconds, micros): (u64, u64) = server.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros
}
