//! Nodes that are killed, stopped or empty.

use std::time::{Duration, Instant};

use dlock_harness::{until, wait::pause};
use dlock_runtime::{LockGuard, LockPool, LostCause, Released};

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

#[tokio::test]
async fn a_node_that_restarts_empty_does_not_vote_for_a_while() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let held = pool.lock("item").renew().acquire().await.unwrap();

    nodes.0[0].kill9();
    nodes.0[0].restart_empty();
    let other = nodes.pool().await;
    nodes.0[1].kill9();
    let error = other
        .lock("free")
        .wait(Duration::ZERO)
        .acquire()
        .await
        .unwrap_err();
    let text = format!("{error:?}");
    assert!(text.contains("does not vote for another"), "{text}");
    drop(held);
}

/// Of each kind one, all of them at all nodes but these.
async fn missing_at(cut: &[usize], nodes: &Nodes, pool: &LockPool) -> Vec<LockGuard> {
    for node in cut {
        nodes.0[*node].stop_signal();
    }
    let lock = |key| pool.lock(key).ttl(MAX_TTL).renew();
    let held = vec![
        lock("exclusive").acquire().await.unwrap(),
        lock("read").read().acquire().await.unwrap(),
        lock("write").write().acquire().await.unwrap(),
        lock("owner")
            .reentrant()
            .owner("ann")
            .acquire()
            .await
            .unwrap(),
    ];
    // What was sent to a stopped node is too late by now to create anything.
    pause(Duration::from_millis(400)).await;
    for node in cut {
        nodes.0[*node].cont();
    }
    held
}

const KINDS: [&str; 4] = ["exclusive", "read", "write", "owner"];

/// What was granted by a quorum and no node more is held by the others when one of those dies.
async fn survives_a_node(number: usize, cut: &[usize], waits: Duration) {
    let nodes = Nodes::voting(number).await;
    let pool = nodes.pool().await;
    let held = missing_at(cut, &nodes, &pool).await;
    pause(waits).await;
    nodes.0[0].kill9();
    let alive = &nodes.0[1..];
    for (lock, key) in held.iter().zip(KINDS) {
        until("the other nodes have the lock", CAP, async || {
            assert!(
                lock.is_held(),
                "{number} nodes, {key}: {:?}",
                lock.lost().await
            );
            let mut at = 0;
            for node in alive {
                at += node.ask::<usize>(&["EXISTS", &format!("lock:{key}")]).await;
            }
            at == alive.len()
        })
        .await;
    }
    pause(MAX_TTL * 2).await;
    for lock in held {
        lock.verify().await.unwrap();
        lock.release().await.unwrap();
    }
    for key in KINDS {
        until("the key is at no node", CAP, async || {
            let mut at = 0;
            for node in alive {
                at += node.ask::<usize>(&["EXISTS", &format!("lock:{key}")]).await;
            }
            at == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_lock_that_only_a_quorum_granted_outlives_one_of_these_nodes() {
    survives_a_node(5, &[3, 4], Duration::from_secs(3)).await;
}

/// Before the first renewal.
#[tokio::test]
async fn a_lock_that_only_a_quorum_granted_outlives_one_of_them_at_once() {
    survives_a_node(5, &[3, 4], Duration::ZERO).await;
    survives_a_node(3, &[1], Duration::ZERO).await;
}

/// The watchdog connects to nodes that come back, and so does the runtime of the caller, who asks for
/// no other lock meanwhile: without these two nodes neither call would find a quorum.
#[tokio::test]
async fn a_lock_is_found_at_nodes_that_came_back() {
    let nodes = Nodes::voting(5).await;
    let pool = nodes.pool().await;
    let held = missing_at(&[3, 4], &nodes, &pool).await;
    for node in &nodes.0[3..] {
        for connections in ["normal", "pubsub"] {
            let kill = ["CLIENT", "KILL", "TYPE", connections];
            node.cmd(&kill).await;
        }
    }
    until(
        "both runtimes are connected to all nodes",
        CAP,
        async || pool.status().unwrap().connections == 2 * nodes.0.len(),
    )
    .await;
    for (lock, key) in held.into_iter().zip(KINDS) {
        until("all nodes have the lock", CAP, async || {
            nodes.with_key(key).await == nodes.0.len()
        })
        .await;
        nodes.0[0].cmd(&["DEL", &format!("lock:{key}")]).await;
        lock.verify().await.unwrap();
        assert_eq!(lock.release().await.unwrap(), Released::Freed, "{key}");
    }
}

/// At the second node that restarts it would be lost.
#[tokio::test]
async fn a_lock_outlives_nodes_that_restart_empty_one_after_the_other() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let held = pool
        .lock("item")
        .ttl(MAX_TTL)
        .renew()
        .acquire()
        .await
        .unwrap();
    for node in 0..3 {
        nodes.0[node].kill9();
        nodes.0[node].restart_empty();
        until("the node votes for the lock again", CAP, async || {
            assert!(held.is_held(), "{:?}", held.lost().await);
            nodes.with_key("item").await == 3
        })
        .await;
    }
    // Once the caller's own connections are back.
    until("the lock is found", CAP, async || {
        held.verify().await.is_ok()
    })
    .await;
    held.release().await.unwrap();
    nodes.until_empty("item").await;
}

/// Evicted, deleted or released, whether or not every node has been asked for its vote.
#[tokio::test]
async fn a_lock_that_was_taken_away_does_not_come_back() {
    let nodes = Nodes::voting(5).await;
    let (pool, admin) = (nodes.pool().await, nodes.pool().await);
    for waits in [0, 700, 1500] {
        let mut held = missing_at(&[3, 4], &nodes, &pool).await;
        pause(Duration::from_millis(waits)).await;
        for key in ["exclusive", "read"] {
            let shown = admin.admin().show(key).await.unwrap().unwrap();
            let fingerprint = shown.holders()[0].fingerprint();
            let _ = admin.admin().evict(key, fingerprint).await.unwrap();
        }
        for node in &nodes.0 {
            node.cmd(&["DEL", "lock:write"]).await;
        }
        held.remove(3).release().await.unwrap();
        for lock in held {
            assert_eq!(lock.lost().await, LostCause::Gone);
        }
        for key in KINDS {
            nodes.until_empty(key).await;
        }
        let begun = Instant::now();
        while begun.elapsed() < MAX_TTL {
            for key in KINDS {
                assert_eq!(nodes.with_key(key).await, 0, "{key} after {waits} ms");
            }
        }
    }
}
