//! Wrong configurations: each works or says what to do.

use std::time::Duration;

use dlock_harness::{Cluster, RedisServer, until};
use dlock_runtime::{Concern, Config, Credentials, Finding, LockError, LockPool, UnavailableCause};
use dlock_tests::served::{documented_cluster_rules, documented_user};
use dlock_tests::works;

use crate::{CAP, config, key_at, pool};

async fn says(config: impl Into<Config>, words: &str) {
    let error = LockPool::connect(config).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains(words), "{said}");
}

#[tokio::test]
async fn a_cluster_spoken_to_as_one_server_and_the_reverse_say_what_to_write() {
    let cluster = Cluster::start(3).await;
    says(cluster.nodes[0].url(), "write `redis+cluster://`").await;
    let server = RedisServer::start();
    let url = server.url().replacen("redis://", "redis+cluster://", 1);
    says(&*url, "leave `+cluster` out").await;
    // The topology is said before a right of the other one is missed.
    let user = [
        "ACL", "SETUSER", "ann", "on", ">pass", "~*", "&*", "+@all", "-cluster",
    ];
    server.cmd(&user).await;
    says(url.replace("://", "://ann:pass@"), "leave `+cluster` out").await;
    let mixed = format!("{},{}", cluster.url(), server.addr());
    says(
        &*mixed,
        &format!("{}: it is no node of a cluster", server.addr()),
    )
    .await;
}

#[tokio::test]
async fn what_a_cluster_has_not_is_refused_before_anything_is_sent() {
    let config = || Config::new("redis+cluster://127.0.0.1:1");
    says(config().without_scripts(), "without_scripts: ").await;
    says(config().counter_per_slot(), "counter_per_slot: ").await;
    says(config().min_replicas(1), "min_replicas: ").await;
    says(config().min_aof(1), "min_aof: ").await;
}

/// The provider may give a better one next time, so a call waits for it.
#[tokio::test]
async fn a_refused_login_of_a_provider_is_named_and_waited_for() {
    let cluster = Cluster::start(3).await;
    let provider = || async { Ok::<_, std::io::Error>(Credentials::new("ann", "pass")) };
    let config = config(&cluster).credentials(provider);
    let error = LockPool::connect(config.clone()).await.unwrap_err();
    let text = format!("{error:?}");
    let begins = "Unavailable: the login at redis failed: check the user";
    assert!(
        text.starts_with(begins) && text.contains("127.0.0.1:"),
        "{text}"
    );
    let pool = LockPool::connect(config.lazy()).await.unwrap();
    let waits = tokio::spawn(pool.lock("k").wait(CAP).acquire());
    for node in &cluster.nodes {
        let user = ["ACL", "SETUSER", "ann", "on", ">pass", "~*", "&*", "+@all"];
        node.cmd(&user).await;
    }
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// It answers for its primary, and is never asked for a lock.
#[tokio::test]
async fn a_replica_that_is_named_first_is_enough() {
    let cluster = Cluster::start_with_replicas(3, Duration::from_secs(60)).await;
    let url = format!("redis+cluster://{}", cluster.nodes[4].addr());
    let pool = LockPool::connect(url).await.unwrap();
    for key in ["a", "b", "c"] {
        works(&pool, key).await.unwrap();
    }
}

#[tokio::test]
async fn nodes_that_are_away_do_not_keep_a_pool_from_starting() {
    let cluster = Cluster::start(3).await;
    let nobody = "redis+cluster://127.0.0.1:1";
    let url = cluster
        .url()
        .replacen("redis+cluster://", &format!("{nobody},"), 1);
    let started = LockPool::connect(url).await.unwrap();
    works(&started, "k").await.unwrap();
    let error = LockPool::connect(nobody).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(format!("{error:?}").contains("127.0.0.1:1"), "{error:?}");
}

/// Two programs, each of which reaches another one, would both hold a lock.
#[tokio::test]
async fn nodes_of_two_clusters_are_refused_and_a_pool_stays_with_its_own() {
    let [cluster, other] = [Cluster::start(3).await, Cluster::start(3).await];
    let both = format!("{},{}", cluster.url(), other.nodes[0].addr());
    says(&*both, "are nodes of two clusters").await;

    // The other one is silent while the pool starts; its epoch is higher.
    let slot = other.slot("lock:k").await;
    let mut to = other.owner(slot).await;
    for _ in 0..12 {
        to = (to + 1) % 3;
        other.migrate(slot, to, async || {}).await;
    }
    for node in &other.nodes {
        node.stop_signal();
    }
    let pool = LockPool::connect(Config::new(both)).await.unwrap();
    for node in &other.nodes {
        node.cont();
    }
    let mut to = cluster.owner(slot).await;
    let asked = async || other.nodes[0].commandstats("cluster|slots").await;
    let locks = async || {
        let held = pool.lock("k").acquire().await.unwrap();
        held.release().await.unwrap();
    };
    for _ in 0..2 {
        let before = asked().await;
        to = (to + 1) % 3;
        cluster.migrate(slot, to, async || {}).await;
        locks().await;
        until("both are asked who serves what", CAP, async || {
            asked().await > before
        })
        .await;
    }
    locks().await;
    for node in &other.nodes {
        assert_eq!(node.keys().await, [""; 0]);
    }
}

/// What a node refuses is said with its name: the others may be set up otherwise.
#[tokio::test]
async fn the_node_that_refuses_is_named() {
    let cluster = Cluster::start(3).await;
    let address = cluster.nodes[1].addr();
    for node in &cluster.nodes {
        documented_user(node, &documented_cluster_rules()).await;
    }
    let url = cluster.url().replacen("://", "://dlock:secret@", 1);
    let pool = LockPool::connect(url).await.unwrap();
    let key = key_at(&cluster, 1).await;
    cluster.nodes[1]
        .cmd(&["ACL", "SETUSER", "dlock", "-evalsha"])
        .await;
    let names_it = |error: LockError| {
        let LockError::Refused { source, .. } = &error else {
            panic!("{error:?}");
        };
        let said = source.to_string();
        assert!(said.starts_with(&format!("{address}: ")), "{said}");
    };
    names_it(pool.lock(key).acquire().await.unwrap_err());

    cluster.nodes[1].cmd(&["ACL", "DELUSER", "dlock"]).await;
    let url = cluster.url().replacen("://", "://dlock:secret@", 1);
    let lazy = LockPool::connect(Config::new(url).lazy()).await.unwrap();
    names_it(lazy.ping().await.unwrap_err());
    let found = lazy.check().await.unwrap();
    let named = |it: &Finding| {
        it.concern() == Concern::Unreachable && it.risk().contains(&address.to_string())
    };
    assert!(found.iter().any(named), "the others are checked: {found:?}");
}

/// A node that has no slot yet serves nobody.
#[tokio::test]
async fn a_slot_that_nobody_serves_is_named() {
    let cluster = Cluster::start(3).await;
    let slot = cluster.slot("lock:k").await;
    let owner = &cluster.nodes[cluster.owner(slot).await];
    for node in &cluster.nodes {
        let full = ["CONFIG", "SET", "cluster-require-full-coverage", "no"];
        node.cmd(&full).await;
    }
    owner.cmd(&["CLUSTER", "DELSLOTS", &slot.to_string()]).await;
    let lazy = config(&cluster).lazy();
    let fresh = LockPool::connect(lazy).await.unwrap();
    let wait = Duration::from_millis(300);
    let error = fresh.lock("k").wait(wait).acquire().await.unwrap_err();
    let LockError::Unavailable { cause, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*cause, UnavailableCause::NotServed);
    let said = error.to_string();
    assert!(
        said.starts_with("the cluster does not serve this now (k): "),
        "{said}"
    );
    let pool = pool(&cluster).await; // the others are served
    let found = pool.check().await.unwrap();
    let unserved = |it: &Finding| it.risk().contains(": no node serves 1 of");
    assert!(found.iter().any(unserved), "{found:?}");
}

/// The error names the address, so that it is clear whose fault it is.
#[tokio::test]
async fn a_node_under_a_name_that_is_not_reachable_is_named() {
    let cluster = Cluster::start(3).await;
    let slot = cluster.slot("lock:k").await;
    let owner = &cluster.nodes[cluster.owner(slot).await];
    // Nothing listens on port 1.
    owner
        .cmd(&["CONFIG", "SET", "cluster-announce-port", "1"])
        .await;
    until("all nodes say so", CAP, async || {
        for node in &cluster.nodes {
            let nodes: String = node.ask(&["CLUSTER", "NODES"]).await;
            if !nodes.contains("127.0.0.1:1@") {
                return false;
            }
        }
        true
    })
    .await;
    let pool = pool(&cluster).await;
    let wait = Duration::from_millis(300);
    let error = pool.lock("k").wait(wait).acquire().await.unwrap_err();
    assert!(format!("{error:?}").contains("127.0.0.1:1"), "{error:?}");
}
