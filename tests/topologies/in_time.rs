//! No call takes longer than its wait and one `command_timeout`, no release longer than one
//! `command_timeout`, and no shutdown longer than its grace and two of them: every way to ask, on every topology, over a
//! long wire and a silent one.

use std::future::Future;
use std::time::{Duration, Instant};

use dlock_harness::{Proxy, wait};
use dlock_runtime::{Config, LockError, LockGuard, LockPool, LockRequest};
use dlock_tests::served::{QUORUM_TTL, Served, Wires};
use futures_util::future::join_all;

use crate::CAP;

const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// A round trip of which six fit into a `command_timeout`; and one of which two do not.
const LONG: Duration = Duration::from_millis(150);
const LONGEST: Duration = Duration::from_millis(700);

const GRACE: Duration = Duration::from_secs(1);

/// Allowed beyond a bound, for a loaded machine.
const SLACK: Duration = Duration::from_millis(700);

/// So many keys are not taken one after the other in time.
const KEYS: usize = 24;

async fn pool_over(wires: &Wires, config: Config) -> LockPool {
    LockPool::connect(wires.over(config)).await.unwrap()
}

/// What holds the last key, and what asks for it.
type Ask = fn(&LockPool, &[String]) -> LockRequest;
type Way = (&'static str, Ask, Ask);

fn last(pool: &LockPool, keys: &[String]) -> LockRequest {
    pool.lock(keys[KEYS - 1].as_str())
}

const WAYS: [Way; 11] = [
    ("one", last, last),
    ("fair", last, |pool, keys| last(pool, keys).fair()),
    (
        "reader",
        |pool, keys| last(pool, keys).write(),
        |pool, keys| last(pool, keys).read(),
    ),
    (
        "writer",
        |pool, keys| last(pool, keys).read(),
        |pool, keys| last(pool, keys).write(),
    ),
    (
        "permits",
        |pool, keys| last(pool, keys).permits(1),
        |pool, keys| last(pool, keys).permits(1),
    ),
    (
        "owner",
        |pool, keys| last(pool, keys).owner("one"),
        |pool, keys| last(pool, keys).owner("other"),
    ),
    ("min_hold", last, |pool, keys| {
        last(pool, keys).min_hold(LONG)
    }),
    ("several", last, |pool, keys| pool.lock_all(keys)),
    ("several, fair", last, |pool, keys| {
        pool.lock_all(keys).fair()
    }),
    (
        "several readers",
        |pool, keys| last(pool, keys).write(),
        |pool, keys| pool.lock_all(keys).read(),
    ),
    (
        "several writers",
        |pool, keys| last(pool, keys).read(),
        |pool, keys| pool.lock_all(keys).write(),
    ),
];

/// What happens to each wire.
type Fault = (&'static str, fn(&Proxy));

const FAULTS: [Fault; 3] = [
    ("silent", Proxy::blackhole),
    ("silent, also to new connections", |wire| {
        wire.blackhole();
        wire.cut_all();
    }),
    ("refused", |wire| {
        wire.refuse();
        wire.cut_all();
    }),
];

/// The keys of a way, all in one slot of a cluster or not.
fn keys(way: &str, are_in_one_slot: bool) -> Vec<String> {
    let key = |nth| {
        if are_in_one_slot {
            format!("{{{way}}}:{nth:02}")
        } else {
            format!("{way}:{nth:02}")
        }
    };
    (0..KEYS).map(key).collect()
}

/// What a call returned that took no longer than the bound.
async fn in_time<T>(what: &str, bound: Duration, call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let ended = call.await;
    let took = begun.elapsed();
    assert!(took <= wait::scaled(bound + SLACK), "{what}: {took:?}");
    ended
}

/// Everything on one topology.
async fn all_in_time(topology: &str, config: Config) {
    let config = config.connect_timeout(CAP).command_timeout(COMMAND_TIMEOUT);
    let config = config.shutdown_grace(GRACE);
    let _holders = over_long_wires(topology, &config).await;
    for (fault, begins) in FAULTS {
        let wires = Wires::default();
        let pool = pool_over(&wires, config.clone()).await;
        let what = format!("{topology}, {fault}");
        ask_for_what_is_held(&what, &pool, false, || wires.all_are(begins)).await;
    }
    give_back(topology, config).await;
}

/// Returns who holds the last keys.
async fn over_long_wires(topology: &str, config: &Config) -> Vec<LockGuard> {
    let direct = LockPool::connect(config.clone().command_timeout(CAP))
        .await
        .unwrap();
    let mut holders = Vec::new();
    for (name, holds, _) in WAYS {
        for are_in_one_slot in [true, false] {
            let holder = holds(&direct, &keys(name, are_in_one_slot));
            holders.extend(offered(holder.ttl(QUORUM_TTL).renew().acquire().await));
        }
    }
    for round_trip in [LONG, LONGEST] {
        let pool = pool_over(&Wires::long(round_trip), config.clone()).await;
        let what = format!("{topology}, {round_trip:?} away");
        ask_for_what_is_held(&what, &pool, round_trip == LONG, || {}).await;
    }
    holders
}

/// Asks for the last key, alone and with others, in an enclosing body: over a wire that leaves time
/// to hear who has it, or one that does not.
async fn ask_for_what_is_held(what: &str, pool: &LockPool, is_heard: bool, begins: impl Fn()) {
    let ways = [true, false]
        .into_iter()
        .flat_map(|it| WAYS.map(|way| (way, it)));
    let calls = ways.map(async |((name, _, asks), are_in_one_slot)| {
        for wait in [Duration::ZERO, Duration::from_millis(400)] {
            let what = format!("{what}, {name}, in one slot: {are_in_one_slot}, {wait:?}");
            let call = asks(pool, &keys(name, are_in_one_slot))
                .wait(wait)
                .acquire();
            match in_time(&what, wait + COMMAND_TIMEOUT, call).await {
                Err(LockError::Config { .. }) => return, // not offered there
                Err(LockError::Busy { .. }) => {}
                Err(LockError::Unavailable { .. }) if !is_heard => {}
                ended => panic!("{what}: {ended:?}"),
            }
        }
    });
    let enclosing = pool.lock(format!("enclosing {what}"));
    let nested = enclosing.ttl(QUORUM_TTL).run(async |_| {
        begins();
        join_all(calls).await;
    });
    nested.await.unwrap();
}

/// Locks of each kind, which are renewed all the time.
async fn renewed(pool: &LockPool, to_be: &str) -> Vec<LockGuard> {
    let mut held = Vec::new();
    for (name, _, asks) in WAYS {
        let request = asks(pool, &keys(&format!("{name} {to_be}"), false)).ttl(QUORUM_TTL);
        held.extend(offered(request.renew_every(LONG).acquire().await));
    }
    held
}

/// Extends and releases while nothing answers, and renewals are under way.
async fn give_back(topology: &str, config: Config) {
    let wires = Wires::default();
    let pool = pool_over(&wires, config).await;
    let (extended, released) = (
        renewed(&pool, "extended").await,
        renewed(&pool, "released").await,
    );
    let (begins, begun) = tokio::sync::oneshot::channel();
    let endless = pool.lock("endless").ttl(QUORUM_TTL);
    let endless = tokio::spawn(endless.run(async |_| {
        begins.send(()).unwrap();
        std::future::pending::<()>().await;
    }));
    begun.await.unwrap();
    wires.all_are(Proxy::blackhole);
    wait::pause(LONG * 2).await;
    let extended = extended.iter().map(async |guard| {
        let what = format!("{topology}, {}", guard.key());
        let ended = in_time(&what, COMMAND_TIMEOUT, guard.extend(QUORUM_TTL)).await;
        ended.expect_err(&what);
    });
    let released = released.into_iter().map(async |guard| {
        let what = format!("{topology}, {}", guard.key());
        let ended = in_time(&what, COMMAND_TIMEOUT, guard.release()).await;
        ended.expect_err(&what);
    });
    tokio::join!(join_all(extended), join_all(released));
    let longest = GRACE + COMMAND_TIMEOUT * 2;
    let shutdown = in_time(topology, longest, pool.shutdown());
    let (stopped, _) = tokio::join!(endless, shutdown);
    stopped.unwrap().expect_err(topology);
}

fn offered(taken: Result<LockGuard, LockError>) -> Option<LockGuard> {
    match taken {
        Err(LockError::Config { .. }) => None,
        taken => Some(taken.unwrap()),
    }
}

async fn on(topology: &str, user: &str) {
    let served = Served::start(topology, &["~*"]).await;
    all_in_time(&format!("{topology} as {user}"), served.config(user)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_one_server() {
    on("", "dlock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_scripts() {
    on("", "plain").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_tls() {
    let served = Served::start("tls", &["~*"]).await;
    let config = served.config("dlock").connect_timeout(CAP);
    let config = config.command_timeout(COMMAND_TIMEOUT);
    // The wire that falls silent reads what it carries, so here there is none.
    over_long_wires("tls", &config).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels() {
    on("sentinel", "dlock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_proxy_that_shards() {
    on("sharded", "dlock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster() {
    on("cluster", "dlock").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_a_quorum() {
    on("quorum", "dlock").await;
}
