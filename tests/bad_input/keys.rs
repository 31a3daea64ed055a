//! Something else is stored at the lock's key.

use dlock_harness::RedisServer;
use dlock_runtime::{Holder, LockError, LockPool, Refusal, Wait};

use crate::lab::{LONG, Servers, fails, fails_at_once, ms, patient, refused, with_one_and_three};

with_one_and_three!(
    a_value_of_another_type_is_refused_at_once_and_left_alone,
    a_key_without_a_time_to_live_is_refused_at_once_and_left_alone,
    an_unknown_layout_is_refused_at_once_and_left_alone,
);

async fn pool() -> (RedisServer, LockPool) {
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url())).await.unwrap();
    (server, pool)
}

async fn a_value_of_another_type_is_refused_at_once_and_left_alone(
    server: &Servers,
    pool: &LockPool,
) {
    let says = "choose another key or namespace";
    for make in [
        &["LPUSH", "lock:k", "x"][..],
        &["SADD", "lock:k", "x"],
        &["HSET", "lock:k", "f", "x"],
        &["ZADD", "lock:k", "1", "x"],
        &["XADD", "lock:k", "*", "f", "x"],
    ] {
        server.cmd(&["DEL", "lock:k"]).await;
        server.cmd(make).await;
        let kind: String = server.ask(&["TYPE", "lock:k"]).await;
        refused(&fails_at_once(pool).await, Refusal::WrongType, says);
        refused(
            &pool.holder("k").await.unwrap_err(),
            Refusal::WrongType,
            says,
        );
        assert_eq!(server.ask::<String>(&["TYPE", "lock:k"]).await, kind);
    }
    assert_eq!(server.keys().await, ["lock:k"], "nothing else is left");
}

async fn a_key_without_a_time_to_live_is_refused_at_once_and_left_alone(
    server: &Servers,
    pool: &LockPool,
) {
    for value in ["left behind", "1|token|host|12|f|5", ""] {
        server.cmd(&["SET", "lock:k", value]).await;
        refused(
            &fails_at_once(pool).await,
            Refusal::NoTtl,
            "delete it, or set `repair_missing_ttl`",
        );
        assert_eq!(server.ask::<String>(&["GET", "lock:k"]).await, value);
        assert_eq!(server.ask::<i64>(&["PTTL", "lock:k"]).await, -1);
    }
    assert_eq!(server.keys().await, ["lock:k"]);
    assert_eq!(pool.holder("k").await.unwrap(), Some(Holder::Foreign));
}

#[tokio::test]
async fn a_key_without_a_time_to_live_is_repaired_and_had_when_that_is_over() {
    let server = RedisServer::start();
    server.cmd(&["SET", "lock:k", "left behind"]).await;
    let config = patient(server.url()).repair_missing_ttl(ms(4_000));
    let pool = LockPool::connect(config).await.unwrap();
    let error = fails(&pool, Wait::Once).await;
    assert!(error.is_busy(), "its owner may still be at work: {error:?}");
    assert!((1..=4_000).contains(&server.pttl("lock:k").await));
    let begun = std::time::Instant::now();
    let held = pool.lock("k").wait(LONG).acquire().await.unwrap();
    assert!(held.is_held() && begun.elapsed() < LONG / 2);
}

/// The rules of another version are unknown here: dlock neither waits for such a lock nor calls it
/// foreign.
async fn an_unknown_layout_is_refused_at_once_and_left_alone(server: &Servers, pool: &LockPool) {
    for ttl in ["60000", ""] {
        server.cmd(&["SET", "lock:k", "2|whatever|that|is"]).await;
        if !ttl.is_empty() {
            server.cmd(&["PEXPIRE", "lock:k", ttl]).await;
        }
        let says = "run one version in the whole fleet";
        refused(&fails_at_once(pool).await, Refusal::Layout, says);
        refused(&pool.holder("k").await.unwrap_err(), Refusal::Layout, says);
    }
    assert_eq!(server.keys().await, ["lock:k"]);
}

#[tokio::test]
async fn a_counter_that_is_broken_stops_no_lock() {
    let (server, pool) = pool().await;
    for broken in [
        "",
        "no number",
        "-5",
        "nan",
        "inf",
        "-inf",
        "1e300",
        "9007199254740992",
    ] {
        server.cmd(&["SET", "lock:@fence", broken]).await;
        let fence = pool.lock("k").run(async |lock| lock.fence()).await.unwrap();
        assert!(
            fence.get() / 1024 > 1_577_836_800_000_000,
            "{broken:?}: {fence}"
        );
    }
}

/// dlock neither grants a lock without a fence, nor repairs a key that is not its own.
#[tokio::test]
async fn a_counter_of_another_type_is_refused_and_no_lock_is_left() {
    let (server, pool) = pool().await;
    server.cmd(&["LPUSH", "lock:@fence", "x"]).await;
    let error = fails_at_once(&pool).await;
    assert!(
        matches!(
            error,
            LockError::Refused {
                reason: Refusal::WrongType,
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(server.keys().await, ["lock:@fence"]);
}
