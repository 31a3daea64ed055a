//! Wrong configurations: each works or says what to do.

use std::time::Duration;

use dlock_harness::{Cluster, RedisServer, until};
use dlock_runtime::{Config, LockError, LockPool};

use crate::{CAP, config, pool};

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
    says(url, "write `redis://`").await;
}

#[tokio::test]
async fn what_a_cluster_has_not_is_refused_before_anything_is_sent() {
    let config = || Config::new("redis+cluster://127.0.0.1:1");
    says(config().without_scripts(), "without_scripts: ").await;
    says(config().counter_per_slot(), "counter_per_slot: ").await;
    says(config().min_replicas(1), "min_replicas: ").await;
    says(config().min_aof(1), "min_aof: ").await;
}

/// It answers for its primary, and is never asked for a lock.
#[tokio::test]
async fn a_replica_that_is_named_first_is_enough() {
    let cluster = Cluster::start_with_replicas(3, Duration::from_secs(60)).await;
    let url = format!("redis+cluster://{}", cluster.nodes[4].addr());
    let pool = LockPool::connect(url).await.unwrap();
    for key in ["a", "b", "c"] {
        pool.lock(key)
            .acquire()
            .await
            .unwrap()
            .release()
            .await
            .unwrap();
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
    started
        .lock("k")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let error = LockPool::connect(nobody).await.map(|_| ()).unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(format!("{error:?}").contains("127.0.0.1:1"), "{error:?}");
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
    let said = format!("{error:?}");
    assert!(said.contains("Unavailable"), "{said}");
    drop(pool(&cluster).await); // the others are served
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
