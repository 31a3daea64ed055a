//! Something else is stored at the lock's key, or in its queue.

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Holder, LockError, LockPool, Refusal, Wait};

use dlock_tests::of_kind;

use crate::lab::{
    LONG, Servers, fails, fails_at_once, ms, patient, refused, waiter, with_one_and_three,
};

with_one_and_three!(
    a_value_of_another_type_is_refused_at_once_and_left_alone,
    a_key_without_a_time_to_live_is_refused_at_once_and_left_alone,
    an_unknown_layout_is_refused_at_once_and_left_alone,
    a_hint_of_the_far_future_keeps_no_reader_out,
);

/// What stands at the head of a queue, and nobody keeps alive.
const STRANGE: [&str; 6] = [
    "garbage",
    "",
    "1|z|token||60000|0|0||host|1|f|0",
    "2|x|token||60000|0|0||host|1|f|0",
    "1|w|token||60000|0|0||host|1|f|0",
    "1|x|token||0|0|0||host|1|f|0",
];

/// Plants a queue entry before all others.
async fn plant(server: &RedisServer, entry: &str) {
    let words = ["ZADD", "lock:@w:{lock:k}", "1", entry];
    server.cmd(&words).await;
}

#[tokio::test]
async fn a_free_lock_is_taken_although_an_entry_without_heartbeats_is_before() {
    let (server, pool) = pool().await;
    for entry in STRANGE {
        for kind in ["x", "fair", "r", "w", "p:1/2", "o:a"] {
            for wait in [Wait::Once, Wait::For(ms(5_000))] {
                plant(&server, entry).await;
                let asked = of_kind(pool.lock("k"), kind).wait(wait);
                let held = asked.acquire().await;
                let held = held.unwrap_or_else(|error| panic!("{entry} {kind}: {error:?}"));
                held.release().await.unwrap();
            }
        }
        plant(&server, entry).await;
        let both = pool.lock_all(["k", "l"]).acquire().await;
        both.unwrap().release().await.unwrap();
    }
    for number in 0..450 {
        plant(&server, &number.to_string()).await;
    }
    pool.lock("k").run(async |_| ()).await.unwrap();
    assert_eq!(server.keys().await, ["lock:@fence"]);
}

#[tokio::test]
async fn a_waiter_is_granted_the_lock_past_an_entry_without_heartbeats() {
    let server = RedisServer::start();
    let binary = [
        "EVAL",
        r"return redis.call('ZADD', KEYS[1], 1, '\255|\0')",
        "1",
        "lock:@w:{lock:k}",
    ];
    for config in [
        patient(server.url()),
        patient(format!("{}?protocol=resp2", server.url())),
        patient(server.url()).without_scripts(),
    ] {
        let pool = LockPool::connect(config).await.unwrap();
        for entry in STRANGE {
            let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
            let waiting = waiter(&pool);
            until("it waits", LONG, async || {
                let waiting: i64 = server.ask(&["ZCARD", "lock:@w:{lock:k}"]).await;
                waiting == 1
            })
            .await;
            plant(&server, entry).await;
            server.cmd(&binary).await;
            held.release().await.unwrap();
            assert_eq!(waiting.await.unwrap().unwrap(), 7, "{entry}");
        }
    }
}

/// Its own clients grant to it.
#[tokio::test]
async fn an_entry_of_another_version_is_waited_for_while_its_heartbeats_come() {
    let (server, pool) = pool().await;
    let time = async || -> u64 {
        let (seconds, micros): (u64, u64) = server.ask(&["TIME"]).await;
        seconds * 1_000_000 + micros
    };
    for entry in &STRANGE[..4] {
        plant(&server, entry).await;
        let alive = time().await + 1_000_000;
        let beats = ["ZADD", "lock:@a:{lock:k}", &alive.to_string(), entry];
        server.cmd(&beats).await;
        let held = pool.lock("k").wait(LONG).acquire().await.unwrap();
        assert!(time().await >= alive, "{entry}");
        held.release().await.unwrap();
    }
}

/// At a node a writer that waits keeps new readers out, for a while.
async fn a_hint_of_the_far_future_keeps_no_reader_out(server: &Servers, pool: &LockPool) {
    for score in ["inf", "9e15", "4503599627370496", "1e300", "0", "-inf"] {
        for hint in ["garbage", "w", "wlock:@grant:nobody"] {
            server.cmd(&["ZADD", "lock:@h:{lock:k}", score, hint]).await;
            for kind in ["r", "w", "x"] {
                let asked = of_kind(pool.lock("k"), kind).wait(ms(5_000));
                let held = asked.acquire().await;
                let held = held.unwrap_or_else(|error| panic!("{score} {hint} {kind}: {error:?}"));
                held.release().await.unwrap();
            }
            server.cmd(&["DEL", "lock:@h:{lock:k}"]).await;
        }
    }
}

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
