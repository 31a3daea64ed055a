//! Behind a proxy that shards: no command has keys of several hash slots, and what may share one
//! still does.

use std::time::Duration;

use dlock_harness::{RedisServer, Sharded, until};
use dlock_runtime::{Concern, Config, LockError, LockPool, LostCause, Refusal};
use dlock_tests::patient;
use futures_util::FutureExt;
use futures_util::future::try_join_all;

use crate::combining::{commands, keys};
use crate::connect;
use crate::record::lines;

const CAP: Duration = Duration::from_secs(30);

fn config(sharded: &Sharded) -> Config {
    patient(sharded.url()).counter_per_slot()
}

async fn pool(config: Config) -> LockPool {
    LockPool::connect(config).await.unwrap()
}

#[tokio::test]
async fn without_the_setting_the_error_names_it() {
    let sharded = Sharded::start().await;
    let refused = connect(sharded.url()).await.lock("k").acquire().await;
    let said = format!("{:?}", refused.unwrap_err());
    assert!(said.contains("`Config::counter_per_slot()`"), "{said}");
}

/// Before anything fails, and where the setting only costs something.
#[tokio::test]
async fn a_check_tells_where_the_setting_is_missing_or_not_needed() {
    let (sharded, single) = (Sharded::start().await, RedisServer::start());
    for without_scripts in [false, true] {
        let found = async |url: String, per_slot: bool| {
            let mut config = patient(url);
            if per_slot {
                config = config.counter_per_slot();
            }
            if without_scripts {
                config = config.without_scripts();
            }
            let found = pool(config).await.check().await.unwrap();
            let mut of_it = found.iter().filter(|it| it.concern() == Concern::Cluster);
            of_it.next().map(ToString::to_string)
        };
        let missing = found(sharded.url(), false).await.unwrap();
        assert!(
            missing.contains("set `Config::counter_per_slot()`"),
            "{missing}"
        );
        assert_eq!(found(sharded.url(), true).await, None);
        assert_eq!(found(single.url(), false).await, None);
        let needless = found(single.url(), true).await.unwrap();
        assert!(
            needless.contains("leave `counter_per_slot` out"),
            "{needless}"
        );
    }
    assert_eq!(sharded.server.keys().await, [""; 0]);
    assert_eq!(single.keys().await, [""; 0]);
}

/// What a node says of keys that it has not.
#[tokio::test]
async fn a_redirect_is_a_refusal_that_changes_nothing() {
    let sharded = Sharded::start().await;
    let pool = pool(config(&sharded)).await;
    let other = RedisServer::builder().args(["--cluster-enabled", "yes"]);
    let other = other.start();
    let (node, port) = (&sharded.server, other.port().to_string());
    node.cmd(&["CLUSTER", "MEET", "127.0.0.1", &port]).await;
    let name: String = other.ask(&["CLUSTER", "MYID"]).await;
    until("the nodes know each other", CAP, async || {
        let nodes: String = node.ask(&["CLUSTER", "NODES"]).await;
        let line = nodes.lines().find(|line| line.starts_with(&name));
        line.is_some_and(|it| !it.contains("handshake") && it.ends_with("connected"))
    })
    .await;
    let slot: u64 = node.ask(&["CLUSTER", "KEYSLOT", "lock:{k}"]).await;
    let slot = slot.to_string();
    let refused = async |says: &str| {
        let keys = node.keys().await;
        let error = pool.lock("{k}").acquire().await.unwrap_err();
        let LockError::Refused { reason, source, .. } = &error else {
            panic!("{error:?}")
        };
        assert_eq!(*reason, Refusal::Cluster, "{error:?}");
        assert!(source.to_string().starts_with(says), "{source}");
        assert_eq!(node.keys().await, keys);
    };

    let setslot = ["CLUSTER", "SETSLOT", &slot];
    node.cmd(&["SET", "lock:{k}", "stranger", "PX", "100000"])
        .await;
    node.cmd(&[&setslot[..], &["MIGRATING", &name]].concat())
        .await;
    refused("TryAgain").await;
    node.cmd(&["DEL", "lock:{k}"]).await;
    refused("Ask").await;
    node.cmd(&[&setslot[..], &["NODE", &name]].concat()).await;
    refused("Moved").await;
    node.cmd(&["CONFIG", "SET", "cluster-require-full-coverage", "no"])
        .await;
    node.cmd(&["CLUSTER", "DELSLOTS", &slot]).await;
    refused("ClusterDown").await;
}

#[tokio::test]
async fn locks_of_one_slot_share_commands_and_others_do_not() {
    let sharded = Sharded::start().await;
    let pool = pool(config(&sharded)).await;
    let sent = commands(&sharded.server, &pool, &keys("key", 32)).await;
    assert_eq!(sent, [[4; 32], [4; 32]]);
    let sent = commands(&sharded.server, &pool, &keys("{tag}", 32)).await;
    assert_eq!(sent, [[4, 4, 1 + 2 * 16, 1 + 2 * 14]; 2]);

    // The documented name of a counter: the smallest number that hashes to the slot.
    let slot: u64 = sharded
        .server
        .ask(&["CLUSTER", "KEYSLOT", "lock:{tag}"])
        .await;
    let counters = sharded.server.keys().await;
    let mut of_slot = Vec::new();
    for counter in counters.iter().filter(|key| key.contains("@fence:{")) {
        let its: u64 = sharded.server.ask(&["CLUSTER", "KEYSLOT", counter]).await;
        of_slot.extend((its == slot).then_some(counter));
    }
    assert_eq!(of_slot.len(), 1, "{counters:?}");
    assert!(!counters.iter().any(|key| key == "lock:@fence"));
}

#[tokio::test]
async fn several_keys_are_one_step_only_with_the_same_tag() {
    let sharded = Sharded::start().await;
    let pool = pool(config(&sharded)).await;
    for (keys, steps) in [(["{a}:1", "{a}:2"], 1), (["a", "b"], 2)] {
        let before = pool.lock_all(keys).acquire().await.unwrap();
        before.release().await.unwrap(); // from then on the scripts are known
        let monitor = sharded.server.monitor();
        let held = pool.lock_all(keys).acquire().await.unwrap();
        let sent = lines(&monitor).await;
        let scripts = sent
            .iter()
            .filter(|it| it.by_client && it.words[0] == "EVALSHA");
        assert_eq!(scripts.count(), steps, "{keys:?}");
        assert_eq!(held.parts().count(), 2);
        held.release().await.unwrap();
    }
}

/// Leases of many slots are renewed in one write, also by a server that has forgotten the script.
#[tokio::test]
async fn leases_of_many_slots_are_renewed() {
    for without_scripts in [false, true] {
        let sharded = Sharded::start().await;
        let config = config(&sharded);
        let pool = pool(if without_scripts {
            config.without_scripts()
        } else {
            config
        })
        .await;
        let (ttl, often) = (Duration::from_secs(30), Duration::from_secs(1));
        let requests = (0..150).map(|it| {
            let key = format!("key:{it}");
            pool.lock(key).ttl(ttl).renew_every(often).acquire()
        });
        let held = try_join_all(requests).await.unwrap();
        sharded.server.cmd(&["SCRIPT", "FLUSH"]).await;
        sharded.server.cmd(&["DEL", "lock:key:7"]).await;
        let renewed = if without_scripts {
            "pexpire"
        } else {
            "evalsha"
        };
        let before = sharded.server.commandstats(renewed).await;
        until("each is renewed twice", CAP, async || {
            sharded.server.commandstats(renewed).await >= before + 2 * 149
        })
        .await;
        for (at, guard) in held.iter().enumerate() {
            let lost = (at == 7).then_some(LostCause::Gone);
            assert_eq!(guard.lost().now_or_never(), lost, "{at}");
        }
    }
}
