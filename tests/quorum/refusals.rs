//! Nodes that answer with errors: their scripts are gone, their memory is full, or the user may not
//! do all that is needed. One of three costs its vote at most; all of three say why (of rights, in
//! `wire::rights`).

use std::time::{Duration, Instant};

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until, wait};
use dlock_runtime::{Config, Fence, LockError, LockPool, NodeStanding, Refusal, Released};
use futures_util::future::join_all;

use crate::nodes::{Nodes, wanting};
use crate::{CAP, MAX_TTL};

/// Long enough for several renewals of a lease of one second.
const RENEWALS: Duration = Duration::from_millis(2500);

/// Takes two locks and gives them back, each at the first try; the higher fence.
async fn works(pool: &LockPool, what: &str) -> Fence {
    let mut fence = None;
    for _ in 0..2 {
        let lock = pool.lock("other").wait(Duration::ZERO).acquire().await;
        let lock = lock.unwrap_or_else(|error| panic!("{what}: {error:?}"));
        assert!(Some(lock.fence()) > fence, "{what}");
        fence = Some(lock.fence());
        assert_eq!(lock.release().await.unwrap(), Released::Freed, "{what}");
    }
    fence.unwrap()
}

/// A pool holds a lock and another one waits for it; `trouble` begins, and is repeated while the
/// lock is renewed and handed over.
async fn while_held_and_waited_for(nodes: &Nodes, what: &str, trouble: impl AsyncFn()) {
    let (one, other) = (nodes.pool().await, nodes.pool().await);
    let held = one.lock("item").renew().acquire().await.unwrap();
    let lock = other.lock("item").wait(CAP);
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    for node in &nodes.0 {
        until("it waits", CAP, async || wanting(node, "item").await == 1).await;
    }
    let begun = Instant::now();
    while begun.elapsed() < RENEWALS {
        trouble().await;
        works(&one, what).await;
        works(&other, what).await;
        held.verify().await.unwrap();
        wait::pause(Duration::from_millis(50)).await;
    }
    assert!(!waiter.is_finished(), "{what}");
    let fence = held.fence();
    trouble().await;
    held.release().await.unwrap();
    let begun = Instant::now();
    let next = waiter.await.unwrap();
    let took = begun.elapsed();
    // At the latest by its own poll.
    assert!(
        took < wait::scaled(Duration::from_secs(2)),
        "{what}: {took:?}"
    );
    assert!(next.fence() > fence, "{what}");
    trouble().await;
    next.release().await.unwrap();
    nodes.until_empty("item").await;
    nodes.until_empty("other").await;
}

async fn flush_scripts(nodes: &[RedisServer]) {
    for node in nodes {
        node.cmd(&["SCRIPT", "FLUSH"]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_flushed_under_held_and_wanted_locks() {
    let nodes = Nodes::voting(3).await;
    for number in [1, 3] {
        let what = format!("flushed at {number}");
        let flush = async || flush_scripts(&nodes.0[..number]).await;
        while_held_and_waited_for(&nodes, &what, flush).await;
    }
}

/// Acquires that are dropped, and releases, while scripts are flushed again and again: nothing is
/// left long before the leases would end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flushed_scripts_leave_no_orphan() {
    const LEASE: Duration = Duration::from_secs(8);
    let nodes = Nodes::start(3);
    nodes.until_voting(LEASE).await;
    let config = nodes.config().max_ttl(LEASE).default_ttl(LEASE);
    let pool = LockPool::connect(config.command_timeout(CAP))
        .await
        .unwrap();
    let begun = Instant::now();
    let tasks = (0_u64..16).map(|task| {
        let pool = pool.clone();
        async move {
            let mut taken = 0_u64;
            while begun.elapsed() < Duration::from_secs(2) {
                taken += 1;
                let acquire = pool.lock(format!("item:{task}:{taken}")).acquire();
                let within = Duration::from_micros(taken * 37 % 1000);
                match tokio::time::timeout(within, acquire).await {
                    Ok(lock) => drop(lock.unwrap().release().await.unwrap()),
                    Err(_) => tokio::task::yield_now().await,
                }
            }
            taken
        }
    });
    let flushing = async {
        while begun.elapsed() < Duration::from_secs(2) {
            flush_scripts(&nodes.0).await;
        }
    };
    let (taken, ()) = tokio::join!(join_all(tasks), flushing);
    println!("{} acquires", taken.iter().sum::<u64>());
    let ended = Instant::now();
    until("no lock is left", CAP, async || nodes.locks().await == 0).await;
    let took = ended.elapsed();
    assert!(took < wait::scaled(LEASE / 2), "{took:?}");
}

async fn fill_memory(nodes: &[RedisServer], is_full: bool) {
    for node in nodes {
        let most = if is_full { "1" } else { "0" };
        node.cmd(&["CONFIG", "SET", "maxmemory", most]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_memory_costs_its_vote() {
    let nodes = Nodes::voting(3).await;
    let full = async || fill_memory(&nodes.0[..1], true).await;
    // Also at the handshakes of both pools.
    full().await;
    works(&nodes.pool().await, "from its handshake on").await;
    fill_memory(&nodes.0[..1], false).await;
    while_held_and_waited_for(&nodes, "full", full).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_memory_at_a_quorum_held_locks_stay_and_no_other_is_granted() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let held = pool.lock("item").renew().acquire().await.unwrap();
    for full in [2, 3] {
        fill_memory(&nodes.0[..full], true).await;
        let begun = Instant::now();
        while begun.elapsed() < RENEWALS {
            for pool in [&pool, &nodes.pool().await] {
                let busy = pool.lock("other").wait(Duration::ZERO).acquire().await;
                says_out_of_memory(&busy.unwrap_err());
            }
            held.verify().await.unwrap();
            wait::pause(Duration::from_millis(100)).await;
        }
        // The third node's vote is taken back.
        nodes.until_empty("other").await;
    }
    assert_eq!(held.release().await.unwrap(), Released::Freed);
    nodes.until_empty("item").await;
    fill_memory(&nodes.0, false).await;
    works(&pool, "again").await;
}

fn says_out_of_memory(error: &LockError) {
    let text = format!("{error:?}");
    match error {
        LockError::Refused { reason, .. } => assert_eq!(*reason, Refusal::OutOfMemory, "{text}"),
        // A vote that was given, or may have been, has to be taken back.
        LockError::Unavailable { .. } => assert!(text.contains("OOM"), "{text}"),
        _ => panic!("{text}"),
    }
}

/// Its memory is full after it voted, and before it adopts the other one's epoch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_cannot_adopt_gives_no_lock_away() {
    let nodes = Nodes::voting(3).await;
    let wires: Vec<_> = nodes.0.iter().map(|it| Proxy::start(it.addr())).collect();
    let config = Config::redlock(wires.iter().map(Proxy::url))
        .max_ttl(MAX_TTL)
        .default_ttl(MAX_TTL)
        .command_timeout(Duration::from_secs(1));
    let pool = LockPool::connect(config).await.unwrap();
    let first = pool.lock("item").acquire().await.unwrap();
    let fence = first.fence();
    first.release().await.unwrap();
    nodes.until_empty("item").await;
    // Node 0 draws a higher epoch than node 1, and node 2 is away: both have to hold one number.
    let keys = nodes.0[0].keys().await;
    let counter = keys
        .iter()
        .find(|it| it.starts_with("lock:@fence"))
        .unwrap();
    let last: u64 = nodes.0[0].ask(&["GET", counter]).await;
    let ahead = (last + 30_000_000).to_string();
    nodes.0[0].cmd(&["SET", counter, &ahead]).await;
    nodes.0[2].kill9();
    let adopts = wires[1].on(Matcher::script().containing(b"\r\na\r\n"), Action::Hold);
    let acquire = tokio::spawn({
        let lock = pool.lock("item").wait(Duration::ZERO);
        async move { lock.acquire().await }
    });
    adopts.seen().await;
    fill_memory(&nodes.0[1..2], true).await;
    wires[1].release_held();
    let error = acquire.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    fill_memory(&nodes.0[1..2], false).await;
    nodes.0[0].cmd(&["PING"]).await;
    until("its votes are taken back", CAP, async || {
        nodes.0[0].ask::<usize>(&["EXISTS", "lock:item"]).await == 0
            && nodes.0[1].ask::<usize>(&["EXISTS", "lock:item"]).await == 0
    })
    .await;
    let next = pool.lock("item").wait(CAP).acquire().await.unwrap();
    assert!(next.fence() > fence);
}

/// The user lacks these rights at the first node; an empty text gives all back.
async fn denied(nodes: &Nodes, rights: &str) {
    let everything = ["ACL", "SETUSER", "default", "reset", "on", "nopass"];
    let mut words = everything.to_vec();
    words.extend(["~*", "&*", "+@all"]);
    words.extend(rights.split_whitespace());
    nodes.0[0].cmd(&words).await;
}

/// Before the pools connect, and while they are connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_missing_at_one_node_costs_its_vote_at_most() {
    let case = async |rights: &'static str| {
        let nodes = Nodes::voting(3).await;
        // Renewals reach a quorum without the node; those who wait are told by the others.
        denied(&nodes, rights).await;
        let pool = patient_pool(&nodes).await;
        works(&pool, rights).await;
        denied(&nodes, "").await;
        let deny = async || denied(&nodes, rights).await;
        held_and_handed_over(&nodes, rights, deny).await;
    };
    let all = [
        "-evalsha -eval",
        "-evalsha",
        "-set",
        "-get -mget",
        "-pexpire",
        "-zadd",
        "-zpopmin -publish",
        "-subscribe resetchannels",
        "-info",
        "-role",
        "-script|load",
        "-time",
        "resetkeys ~another:*",
    ];
    for some in all.chunks(3) {
        join_all(some.iter().map(|rights| case(rights))).await;
    }
}

/// A pool whose leases and timeouts a busy machine keeps.
async fn patient_pool(nodes: &Nodes) -> LockPool {
    let config = nodes.config().default_ttl(MAX_TTL);
    let config = config.command_timeout(MAX_TTL / 2);
    LockPool::connect(config).await.unwrap()
}

/// As `while_held_and_waited_for`; the administrator gives the rights back before it looks whether
/// nothing is left.
async fn held_and_handed_over(nodes: &Nodes, what: &str, deny: impl AsyncFn()) {
    let (one, other) = (patient_pool(nodes).await, patient_pool(nodes).await);
    let held = one.lock("item").renew().acquire().await.unwrap();
    let lock = other.lock("item").wait(CAP);
    let waiter = tokio::spawn(async move { lock.acquire().await.unwrap() });
    until("it waits", CAP, async || {
        wanting(&nodes.0[1], "item").await == 1 && wanting(&nodes.0[2], "item").await == 1
    })
    .await;
    deny().await;
    let begun = Instant::now();
    while begun.elapsed() < MAX_TTL * 5 / 4 {
        works(&one, what).await;
        held.verify().await.unwrap();
        wait::pause(Duration::from_millis(100)).await;
    }
    let _ = held.release().await.unwrap();
    let begun = Instant::now();
    let next = waiter.await.unwrap();
    let took = begun.elapsed();
    assert!(
        took < wait::scaled(Duration::from_secs(2)),
        "{what}: {took:?}"
    );
    let _ = next.release().await.unwrap();
    denied(nodes, "").await;
    nodes.until_empty("item").await;
    nodes.until_empty("other").await;
}

/// The status says which node can't be used, and why.
#[tokio::test]
async fn the_node_without_rights_is_named() {
    let nodes = Nodes::voting(3).await;
    denied(&nodes, "-info").await;
    let pool = nodes.pool().await;
    works(&pool, "-info").await;
    until("the status says why", CAP, async || {
        let nodes = pool.status().unwrap().nodes;
        matches!(&nodes[0].standing, NodeStanding::Away { why } if why.contains("info"))
            && nodes[1..]
                .iter()
                .all(|it| it.standing == NodeStanding::Votes)
    })
    .await;
}
