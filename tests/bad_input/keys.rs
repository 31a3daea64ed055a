//! Something else is stored at the lock's key, or in its queue.

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, Holder, LockError, LockPool, Refusal, Released, Wait};

use dlock_tests::of_kind;

use crate::lab::{
    LONG, Servers, fails, fails_at_once, ms, patient, refused, waiter, with_one_and_three,
};

with_one_and_three!(
    a_value_of_another_type_is_refused_at_once_and_left_alone,
    a_key_without_a_time_to_live_is_refused_at_once_and_left_alone,
    an_unknown_layout_is_refused_at_once_and_left_alone,
    a_hint_of_the_far_future_keeps_no_reader_out;
    without_scripts:
    a_value_of_another_type_is_refused_at_once_and_left_alone,
    a_key_without_a_time_to_live_is_refused_at_once_and_left_alone,
    an_unknown_layout_is_refused_at_once_and_left_alone,
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

/// Whether or not the call would wait. Nodes may need a second round to say so.
async fn refused_at_once(server: &Servers, pool: &LockPool, reason: Refusal, says: &str) {
    if server.0.len() == 1 {
        refused(&fails(pool, Wait::Once).await, reason, says);
    }
    refused(&fails_at_once(pool).await, reason, says);
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
        refused_at_once(server, pool, Refusal::WrongType, says).await;
        match pool.holder("k").await {
            Ok(holder) => assert!(server.1.is_some() && holder == Some(Holder::Foreign)),
            Err(error) => refused(&error, Refusal::WrongType, says),
        }
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
        let says = "delete it, or set `repair_missing_ttl`";
        refused_at_once(server, pool, Refusal::NoTtl, says).await;
        assert_eq!(server.ask::<String>(&["GET", "lock:k"]).await, value);
        assert_eq!(server.ask::<i64>(&["PTTL", "lock:k"]).await, -1);
    }
    assert_eq!(server.keys().await, ["lock:k"]);
    assert_eq!(pool.holder("k").await.unwrap(), Some(Holder::Foreign));
}

#[tokio::test]
async fn a_key_without_a_time_to_live_is_repaired_and_had_when_that_is_over() {
    let server = RedisServer::start();
    let config = patient(server.url()).repair_missing_ttl(ms(4_000));
    for config in [config.clone(), config.without_scripts()] {
        server.cmd(&["SET", "lock:k", "left behind"]).await;
        let pool = LockPool::connect(config).await.unwrap();
        let error = fails(&pool, Wait::Once).await;
        assert!(error.is_busy(), "its owner may still be at work: {error:?}");
        assert!((1..=4_000).contains(&server.pttl("lock:k").await));
        let begun = std::time::Instant::now();
        let held = pool.lock("k").wait(LONG).acquire().await.unwrap();
        assert!(held.is_held() && begun.elapsed() < LONG / 2);
        held.release().await.unwrap();
    }
}

/// The rules of another version are unknown here: dlock neither waits for such a lock nor calls it
/// foreign.
async fn an_unknown_layout_is_refused_at_once_and_left_alone(server: &Servers, pool: &LockPool) {
    for plant in [
        &["SET", "lock:k", "2|whatever|that|is", "PX", "60000"][..],
        &["SET", "lock:k", "2|whatever|that|is"],
        &["ZADD", "lock:k", "inf", "2|#|rw"],
    ] {
        server.cmd(&["DEL", "lock:k"]).await;
        server.cmd(plant).await;
        let says = "run one version in the whole fleet";
        refused_at_once(server, pool, Refusal::Layout, says).await;
        refused(&pool.holder("k").await.unwrap_err(), Refusal::Layout, says);
    }
    assert_eq!(server.keys().await, ["lock:k"]);
}

/// Nor does its loss, and no fence falls.
#[tokio::test]
async fn a_counter_that_is_broken_stops_no_lock() {
    let (server, with) = pool().await;
    let without = LockPool::connect(patient(server.url()).without_scripts());
    let without = without.await.unwrap();
    let broken = [
        "",
        "no number",
        "-5",
        "5",
        "nan",
        "inf",
        "-inf",
        "1e300",
        "9007199254740992",
        "9223372036854775807",
    ];
    let broken = broken.map(|it| vec!["SET", COMPANIONS[0], it]);
    let lost = [vec!["FLUSHALL"], vec!["DEL", COMPANIONS[0]]];
    let mut fences = Vec::new();
    for spoils in broken.into_iter().chain(lost) {
        for pools in [[&with, &with, &without], [&without, &without, &with]] {
            server.cmd(&spoils).await;
            for pool in pools {
                let fence = pool.lock("k").run(async |lock| lock.fence()).await.unwrap();
                assert!(
                    fence.get() / 1024 > 1_577_836_800_000_000,
                    "{spoils:?}: {fence}"
                );
                fences.push(fence);
            }
        }
    }
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

/// A lock that was granted with such a number would have a fence that no later one reaches.
#[tokio::test]
async fn a_counter_decades_ahead_grants_nothing_and_no_fence_falls() {
    let (server, with) = pool().await;
    let without = LockPool::connect(patient(server.url()).without_scripts());
    let without = without.await.unwrap();
    let mut fence = with.lock("k").run(async |it| it.fence()).await.unwrap();
    let ahead = async |number: &str| server.cmd(&["SET", COMPANIONS[0], number]).await;
    for (pool, kinds) in [(&with, &PAIRS[..]), (&without, &PAIRS[..1])] {
        for number in ["5000000000000000", "9007199254740000"] {
            for (kind, _) in kinds {
                ahead(number).await;
                let asked = of_kind(pool.lock("k"), kind).wait(LONG).acquire().await;
                names(&asked.unwrap_err(), COMPANIONS[0]);
                // Those that wait are granted it at a release, with a number of their own.
                server.cmd(&["DEL", COMPANIONS[0]]).await;
                let held = of_kind(pool.lock("k"), "x").ttl(LONG).wait(LONG);
                let held = held.acquire().await.unwrap();
                let waiting = tokio::spawn(of_kind(pool.lock("k"), kind).wait(LONG).acquire());
                until("it waits", LONG, async || {
                    server.ask::<i64>(&["EXISTS", COMPANIONS[1]]).await == 1
                })
                .await;
                assert!(held.fence() > fence);
                fence = held.fence();
                ahead(number).await;
                held.release().await.unwrap();
                match waiting.await.unwrap() {
                    Ok(handed_on) => {
                        assert!(handed_on.fence() > fence, "{number} {kind}");
                        fence = handed_on.fence();
                        handed_on.release().await.unwrap();
                    }
                    Err(error) => names(&error, COMPANIONS[0]),
                }
            }
        }
    }
    ahead("8000000000000000").await;
    let both = with.lock_all(["k", "l"]).wait(LONG).acquire().await;
    names(&both.unwrap_err(), COMPANIONS[0]);
    until("nothing is left", LONG, async || {
        server.keys().await == COMPANIONS[..1]
    })
    .await;
    for broken in [
        "",
        "-1",
        "nan",
        "8e15",
        "9007199254740989",
        "9007199254740990",
        "9007199254740991",
        "-9007199254740991",
    ] {
        for pool in [&with, &without] {
            ahead(broken).await;
            if let Ok(held) = pool.lock("k").wait(LONG).acquire().await {
                assert!(held.fence() > fence, "{broken}");
                fence = held.fence();
                held.release().await.unwrap();
            }
        }
    }
    server.cmd(&["DEL", COMPANIONS[0]]).await;
    let last = with.lock("k").run(async |it| it.fence()).await.unwrap();
    assert!(last > fence);
}

/// Replaces a key by a hash.
async fn replace(server: &Servers, key: &str) {
    let script = "redis.call('DEL', KEYS[1]) return redis.call('HSET', KEYS[1], 'f', 'x')";
    server.cmd(&["EVAL", script, "1", key]).await;
}

/// The refusal names this key, and not the lock's.
#[track_caller]
fn names(error: &LockError, companion: &str) {
    let says = "one of the keys that dlock keeps beside its locks";
    refused(error, Refusal::Companion, says);
    assert!(format!("{error:?}").contains(companion), "{error:?}");
}

const COMPANIONS: [&str; 3] = ["lock:@fence", "lock:@w:{lock:k}", "lock:@a:{lock:k}"];

/// Each kind, with one that has to wait for it.
const PAIRS: [(&str, &str); 6] = [
    ("x", "x"),
    ("fair", "fair"),
    ("r", "w"),
    ("w", "r"),
    ("p:2/2", "p:1/2"),
    ("o:a", "o:b"),
];

/// With a waiter from before, and without. Whoever asks is told which key is wrong, and leaves
/// nothing; whoever holds the lock gives it back.
async fn companions_of_another_type(config: Config, server: RedisServer, pairs: &[(&str, &str)]) {
    let servers = Servers::of(server);
    let pools = [&config, &config].map(|it| LockPool::connect(it.clone()));
    let [holds, asks] = pools.map(async |it| it.await.unwrap());
    let (holds, asks) = (holds.await, asks.await);
    for (kind, other) in pairs {
        let cases = COMPANIONS.iter().flat_map(|it| [(it, false), (it, true)]);
        for (companion, is_waited_for) in cases {
            let what = format!("{kind}, {companion}, {is_waited_for}");
            servers.cmd(&["FLUSHALL"]).await;
            let held = of_kind(holds.lock("k"), kind).ttl(LONG).acquire().await;
            let held = held.unwrap_or_else(|error| panic!("{what}: {error:?}"));
            let asked = of_kind(asks.lock("k"), other).ttl(LONG).wait(LONG);
            if is_waited_for {
                let waiting = tokio::spawn(asked.acquire());
                until("it waits", LONG, async || {
                    servers.ask::<i64>(&["EXISTS", COMPANIONS[1]]).await == 1
                })
                .await;
                replace(&servers, companion).await;
                held.extend(LONG).await.unwrap();
                let released = held.release().await;
                assert_eq!(released.unwrap(), Released::Freed, "{what}");
                match waiting.await.unwrap() {
                    // It was granted the lock before anybody looked at the key.
                    Ok(granted) => drop(granted.release().await),
                    Err(error) => names(&error, companion),
                }
            } else {
                replace(&servers, companion).await;
                names(&asked.acquire().await.unwrap_err(), companion);
                held.verify().await.unwrap();
                let released = held.release().await;
                assert_eq!(released.unwrap(), Released::Freed, "{what}");
            }
            until("nothing of anybody is left", LONG, async || {
                let mut keys = servers.keys().await;
                keys.retain(|it| it != companion && it != "lock:@fence");
                keys.is_empty() || keys == COMPANIONS[2..] // ends with its last heartbeat
            })
            .await;
        }
    }
}

#[tokio::test]
async fn a_companion_of_another_type_is_named_and_costs_no_holder_its_release() {
    let server = RedisServer::start();
    companions_of_another_type(patient(server.url()), server, &PAIRS).await;
}

#[tokio::test]
async fn without_scripts_a_companion_of_another_type_is_named_too() {
    let server = RedisServer::start();
    let config = patient(server.url()).without_scripts();
    companions_of_another_type(config, server, &PAIRS[..1]).await;
}

/// A release, a downgrade and locks of several keys.
#[tokio::test]
async fn what_else_a_companion_of_another_type_stops() {
    let (server, pool) = pool().await;
    let servers = Servers::of(server);
    let other = LockPool::connect(patient(servers.0[0].url()))
        .await
        .unwrap();
    for companion in COMPANIONS {
        servers.cmd(&["FLUSHALL"]).await;
        let held = pool.lock("k").write().ttl(LONG).acquire().await.unwrap();
        let waiting = tokio::spawn(other.lock("k").read().wait(LONG).acquire());
        until("it waits", LONG, async || {
            servers.ask::<i64>(&["EXISTS", COMPANIONS[1]]).await == 1
        })
        .await;
        replace(&servers, companion).await;
        held.downgrade().await.unwrap();
        held.verify().await.unwrap();
        names(&waiting.await.unwrap().unwrap_err(), companion);
        held.release().await.unwrap();

        servers.cmd(&["FLUSHALL"]).await;
        let both = pool.lock_all(["k", "l"]).acquire().await.unwrap();
        let alone = other.lock("k").acquire();
        assert!(alone.await.unwrap_err().is_busy());
        replace(&servers, companion).await;
        both.release().await.unwrap();
        if companion != COMPANIONS[2] {
            names(
                &pool.lock_all(["l", "k"]).acquire().await.unwrap_err(),
                companion,
            );
        }
        servers.cmd(&["FLUSHALL"]).await;
        let batch: Vec<String> = (0..20).map(|it| format!("{it}")).collect();
        let mut held = Vec::new();
        for key in &batch {
            held.push(pool.lock(key.as_str()).acquire().await.unwrap());
            replace(&servers, &format!("lock:@w:{{lock:{key}}}")).await;
            replace(&servers, &format!("lock:@a:{{lock:{key}}}")).await;
        }
        let released = held.into_iter().map(|it| tokio::spawn(it.release()));
        for released in released.collect::<Vec<_>>() {
            assert_eq!(released.await.unwrap().unwrap(), Released::Freed);
        }
    }
}

/// At each node: the counter, the hints, and what it knows of its quorum.
#[tokio::test]
async fn companions_of_another_type_at_nodes_are_named() {
    let (servers, pool) = Servers::three().await;
    let held = pool.lock("k").acquire().await.unwrap();
    let counters: Vec<String> = servers.0[0].keys().await;
    let counter = counters.iter().find(|it| it.starts_with("lock:@fence"));
    let counter = counter.unwrap().clone();
    held.release().await.unwrap();
    for (kind, other) in [PAIRS[0], PAIRS[2], PAIRS[3], PAIRS[5]] {
        let ask = || of_kind(pool.lock("k"), kind).wait(ms(300)).acquire();
        let held = ask().await.unwrap();
        for key in [&counter, "lock:@h:{lock:k}", "lock:@h:{}"] {
            replace(&servers, key).await;
        }
        held.verify().await.unwrap();
        let asked = of_kind(pool.lock("k"), other).wait(ms(300)).acquire().await;
        let error = format!("{:?}", asked.unwrap_err());
        assert!(
            error.contains(&counter) || error.contains("lock:@h:{lock:k}"),
            "{error}"
        );
        assert_eq!(held.release().await.unwrap(), Released::Freed, "{kind}");
        servers.cmd(&["DEL", "lock:@h:{lock:k}"]).await;
        let error = format!("{:?}", ask().await.unwrap_err());
        assert!(error.contains(&counter), "{kind}: {error}");
        servers.cmd(&["DEL", &counter]).await;
        replace(&servers, "lock:@h:{lock:k}").await;
        if kind == "w" || kind == "x" {
            assert_eq!(
                ask().await.unwrap().release().await.unwrap(),
                Released::Freed
            );
        }
        servers
            .cmd(&["DEL", "lock:@h:{lock:k}", "lock:@h:{}"])
            .await;
    }
}

/// dlock neither grants a lock without a fence, nor repairs a key that is not its own.
#[tokio::test]
async fn a_counter_of_another_type_is_refused_and_no_lock_is_left() {
    let (server, pool) = pool().await;
    let plain = LockPool::connect(patient(server.url()).without_scripts());
    let plain = plain.await.unwrap();
    server.cmd(&["LPUSH", "lock:@fence", "x"]).await;
    names(&fails_at_once(&pool).await, "lock:@fence");
    assert_eq!(server.keys().await, ["lock:@fence"]);
    names(&fails_at_once(&plain).await, "lock:@fence");
    until("no lock is left", ms(5_000), async || {
        server.keys().await == ["lock:@fence"]
    })
    .await;
}
