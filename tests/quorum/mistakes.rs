//! Wrong configurations and requests: each is refused, with the reason, before anything is locked.

use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, until, wait::pause};
use dlock_runtime::{Batch, Config, LockError, LockPool, LockRequest, NodeStanding, Refusal};
use dlock_tests::refusal;

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

/// Names the same server by another name.
fn by_name(server: &RedisServer) -> String {
    server.url().replace("127.0.0.1", "localhost")
}

/// The pool is refused at its start, with these words, and no node has a lock.
async fn refused(nodes: &Nodes, config: Config, words: &[&str]) {
    let error = LockPool::connect(config).await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    let text = format!("{error:?}");
    for word in words {
        assert!(text.contains(word), "{word:?} is not in: {text}");
    }
    no_locks(nodes).await;
}

async fn no_locks(nodes: &Nodes) {
    for node in &nodes.0 {
        let mut keys = node.keys().await;
        keys.retain(|key| !key.starts_with("lock:@"));
        assert!(keys.is_empty(), "{keys:?}");
    }
}

fn of<S: Into<String>>(urls: impl IntoIterator<Item = S>) -> Config {
    Config::redlock(urls)
        .max_ttl(MAX_TTL)
        .default_ttl(Duration::from_secs(1))
        .command_timeout(Duration::from_millis(500))
}

#[tokio::test]
async fn one_server_under_two_names() {
    let nodes = Nodes::start(2);
    let [a, b] = &nodes.0[..] else { panic!() };
    let urls = [a.url(), b.url(), by_name(a)];
    refused(&nodes, of(urls), &["same server", "localhost", "127.0.0.1"]).await;
    refused(&nodes, of([a.url(), b.url(), a.url()]), &["named twice"]).await;
}

#[tokio::test]
async fn numbers_that_cannot_decide() {
    let nodes = Nodes::start(1);
    for number in [0, 1, 2, 4, 6, 8, 10, 11] {
        let urls = (0..number).map(|nth| format!("redis://127.0.0.1:{}", 1 + nth));
        let word = if number == 11 { "9" } else { "3" };
        refused(&nodes, of(urls), &["node", word]).await;
    }
}

async fn follow(replica: &RedisServer, master: &RedisServer) {
    let port = master.port().to_string();
    replica.cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
    until("the replica follows", CAP, async || {
        let info: String = master.ask(&["INFO", "replication"]).await;
        info.contains("state=online")
    })
    .await;
}

#[tokio::test]
async fn a_replica_or_a_master_with_replicas() {
    let nodes = Nodes::start(3);
    let urls = || nodes.0.iter().map(RedisServer::url);
    follow(&nodes.0[1], &nodes.0[0]).await;
    // Either the replica or its master is met first.
    refused(
        &nodes,
        of(urls()),
        &["replica", "failover would lose votes"],
    )
    .await;
    let without_the_master = [
        nodes.0[1].url(),
        nodes.0[2].url(),
        "redis://127.0.0.1:1".into(),
    ];
    refused(&nodes, of(without_the_master), &["is a replica"]).await;
    let without_the_replica = [
        nodes.0[0].url(),
        nodes.0[2].url(),
        "redis://127.0.0.1:1".into(),
    ];
    refused(
        &nodes,
        of(without_the_replica),
        &["a master with 1 replica"],
    )
    .await;
}

/// A program that runs goes on without the node, and one that starts is told.
#[tokio::test]
async fn a_node_that_gets_a_replica_later_is_away() {
    let nodes = Nodes::voting(4).await;
    let urls = || nodes.0[..3].iter().map(RedisServer::url);
    let pool = LockPool::connect(of(urls())).await.unwrap();
    pool.lock("item").run(async |_| ()).await.unwrap();
    follow(&nodes.0[3], &nodes.0[0]).await;
    // Then all connections are made again.
    for node in &nodes.0[..3] {
        node.cmd(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        node.cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    }
    until("the others vote", CAP, async || {
        pool.lock("item").run(async |_| ()).await.is_ok()
    })
    .await;
    until("the status says why", CAP, async || {
        let standing = &pool.status().unwrap().nodes[0].standing;
        matches!(standing, NodeStanding::Away { why } if why.contains("replica"))
    })
    .await;
    let error = LockPool::connect(of(urls())).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("a master with 1 replica"), "{text}");
}

/// For longer than a node keeps what it knows of its quorum.
#[tokio::test]
async fn a_fleet_that_only_renews_keeps_its_nodes() {
    let nodes = Nodes::start(5);
    nodes.until_voting(MAX_TTL).await;
    let urls: Vec<_> = nodes.0.iter().map(RedisServer::url).collect();
    let pool = LockPool::connect(of(&urls[..3])).await.unwrap();
    let held = pool.lock("item").renew().acquire().await.unwrap();
    let begun = Instant::now();
    while begun.elapsed() < MAX_TTL * 5 {
        held.verify().await.unwrap();
        pause(MAX_TTL / 10).await;
    }
    let error = LockPool::connect(of(&urls)).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("disagree"), "{text}");
    held.release().await.unwrap();
}

#[tokio::test]
async fn programs_that_disagree_about_max_ttl_or_the_number_of_nodes() {
    let nodes = Nodes::start(5);
    let urls: Vec<_> = nodes.0.iter().map(RedisServer::url).collect();
    let first = LockPool::connect(of(&urls[..3])).await.unwrap();
    let other = of(&urls[..3]).max_ttl(MAX_TTL * 2);
    refused(&nodes, other, &["disagree", "2000 ms", "4000 ms"]).await;
    refused(&nodes, of(&urls), &["disagree", "3 nodes", "5 nodes"]).await;
    first.ping().await.unwrap();
    drop(first);
    // When the first fleet has been gone for twice its `max_ttl`, the others may begin.
    until("the nodes forgot the first quorum", CAP, async || {
        LockPool::connect(of(&urls)).await.is_ok()
    })
    .await;
}

#[tokio::test]
async fn settings_that_several_nodes_cannot_have() {
    let nodes = Nodes::start(3);
    let config = || nodes.config();
    let second = Duration::from_secs(1);
    refused(
        &nodes,
        config().default_ttl(MAX_TTL * 2),
        &["default_ttl", "max_ttl"],
    )
    .await;
    let repairing = config().repair_missing_ttl(second);
    refused(&nodes, repairing, &["repair_missing_ttl", "leave it out"]).await;
    refused(&nodes, config().without_scripts(), &["without_scripts"]).await;
    refused(&nodes, config().counter_per_slot(), &["counter_per_slot"]).await;
    refused(&nodes, config().max_in_flight(3), &["max_in_flight"]).await;
}

#[tokio::test]
async fn requests_that_several_nodes_cannot_fulfil() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let refused = async |request: LockRequest, word: &str| {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
        let text = format!("{error:?}");
        assert!(text.contains(word), "{word:?} is not in: {text}");
        no_locks(&nodes).await;
    };
    let lock = || pool.lock("item");
    refused(lock().permits(3), "permits").await;
    refused(lock().fair(), "`fair`").await;
    refused(lock().ttl(MAX_TTL + Duration::from_millis(1)), "max_ttl").await;
    refused(lock().min_hold(MAX_TTL * 2), "max_ttl").await;

    let held = lock().acquire().await.unwrap();
    let batch = Batch::new().set("item-data", "1");
    let error = held.write(&batch).await.unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(format!("{error:?}").contains("fence"), "{error:?}");
    for node in &nodes.0 {
        assert_eq!(node.ask::<u64>(&["EXISTS", "item-data"]).await, 0);
    }
    held.verify().await.unwrap();
}

/// A node that has lost the lock votes for whoever asks; the others' answer is final all the same,
/// and what that node granted is cancelled.
#[tokio::test]
async fn a_second_kind_is_refused_though_a_node_has_lost_the_first() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    for node in &nodes.0 {
        let plain = || pool.lock("item").reentrant().ttl(MAX_TTL).wait(CAP);
        let errors = plain().owner("a").run(async |_| {
            let everywhere = async || nodes.with_key("item").await == 3;
            until("each node has it", CAP, everywhere).await;
            node.cmd(&["DEL", "lock:item"]).await;
            let nested = plain().acquire().await.unwrap_err();
            let mut tried = None;
            until("the first attempt is cancelled", CAP, async || {
                let again = plain().try_acquire().await;
                // Before that, one node says that the first attempt holds the lock.
                assert!(again.as_ref().ok().is_none_or(Option::is_none), "two kinds");
                tried = again.err();
                tried.is_some()
            })
            .await;
            [nested, tried.unwrap()]
        });
        for error in errors.await.unwrap() {
            assert_eq!(refusal(&error), Some(Refusal::WrongKind), "{error:?}");
        }
        nodes.until_empty("item").await;
    }
}

/// Two of three answer, and can't give the lock: that is not blamed on the network.
#[tokio::test]
async fn nodes_that_answer_are_not_called_unreachable() {
    let nodes = Nodes::voting(3).await;
    let config = nodes.config().max_ttl(MAX_TTL).default_ttl(MAX_TTL);
    let pool = LockPool::connect(config).await.unwrap();
    let reads = pool.lock("item").read().acquire().await.unwrap();
    until("each node has it", CAP, async || {
        nodes.with_key("item").await == 3
    })
    .await;
    nodes.0[1].cmd(&["DEL", "lock:item"]).await;
    nodes.0[2].kill9();
    let error = pool.lock("item").try_acquire().await.unwrap_err();
    let said = format!("{error:?}");
    assert!(matches!(error, LockError::Unavailable { .. }), "{said}");
    assert!(
        !said.contains("can't be reached") && said.contains(" (redlock://"),
        "{said}"
    );
    drop(reads);
}
