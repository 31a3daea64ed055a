//! A key on Redis that compares fences, by the page's own script.

use dlock_harness::RedisServer;
use dlock_runtime::LockPool;
use dlock_tests::patient;

use crate::page::lua;
use crate::story::ann_and_bob;

async fn write(server: &RedisServer, script: &str, fence: u64, value: &str) -> i64 {
    let words = ["EVAL", script, "1", "price", &fence.to_string(), value];
    server.ask(&words).await
}

async fn value(server: &RedisServer) -> String {
    server.ask(&["HGET", "price", "value"]).await
}

#[tokio::test]
async fn the_paused_holders_value_is_refused() {
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    let (ann, bob) = ann_and_bob(&pool).await;
    let (ann, bob) = (ann.get(), bob.get());
    assert_eq!(write(&server, lua(), bob, "bob's").await, 1);
    assert_eq!(write(&server, lua(), ann, "ann's").await, 0);
    assert_eq!(value(&server).await, "bob's");
    assert_eq!(write(&server, lua(), bob, "bob's second").await, 1);
}

/// Numbers that a double can't tell apart, and one with one digit more.
#[tokio::test]
async fn neighbours_and_lengths_are_told_apart() {
    let server = RedisServer::start();
    let late = 1_836_000_000_000_000_000_u64;
    assert_eq!(write(&server, lua(), 9, "short").await, 1);
    assert_eq!(write(&server, lua(), late + 1, "new").await, 1);
    assert_eq!(write(&server, lua(), late, "late").await, 0);

    let by_number = lua().replace(
        "#seen > #mine or (#seen == #mine and seen > mine)",
        "(tonumber(seen) or 0) > tonumber(mine)",
    );
    assert_ne!(by_number, lua());
    assert_eq!(write(&server, &by_number, late, "late").await, 1);
    assert_eq!(
        value(&server).await,
        "late",
        "compared as numbers, it passes"
    );
}
