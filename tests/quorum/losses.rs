//! Nodes that are killed, stopped or empty.

use std::time::{Duration, Instant};

use dlock_runtime::LockError;

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

#[tokio::test]
async fn a_lock_survives_a_killed_node_and_not_two() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let held = pool.lock("held").renew().acquire().await.unwrap();

    nodes.0[0].kill9();
    for turn in 0..20 {
        let lock = pool.lock("item").acquire().await;
        let lock = lock.unwrap_or_else(|error| panic!("turn {turn}: {error:?}"));
        lock.release().await.unwrap();
    }
    held.verify().await.unwrap();

    nodes.0[1].kill9();
    let begun = Instant::now();
    let error = pool
        .lock("item")
        .wait(Duration::from_millis(500))
        .acquire()
        .await
        .unwrap_err();
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    assert!(begun.elapsed() < CAP, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_node_that_hangs_costs_its_vote_only() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    pool.lock("item")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();

    nodes.0[2].stop_signal();
    for turn in 0..20 {
        let lock = pool.lock("item").acquire().await;
        let lock = lock.unwrap_or_else(|error| panic!("turn {turn}: {error:?}"));
        lock.release().await.unwrap();
    }
    nodes.0[2].cont();
    nodes.until_empty("item").await;
}

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
    let text = dlock_text(&error);
    assert!(text.contains("does not vote for another"), "{text}");
    drop(held);
}

/// A held lock is at two nodes; one of them loses it. The other two must not give it away.
#[tokio::test]
async fn a_node_that_lost_its_data_does_not_give_a_held_lock_away() {
    let nodes = Nodes::voting(3).await;
    let (pool, other) = (nodes.pool().await, nodes.pool().await);
    nodes.0[2].stop_signal();
    let held = pool.lock("item").ttl(MAX_TTL).acquire().await.unwrap();
    nodes.0[0].kill9();
    nodes.0[0].restart_empty();
    // What was sent to the stopped node is too late by now to create anything.
    dlock_harness::wait::pause(Duration::from_millis(400)).await;
    nodes.0[2].cont();
    assert_eq!(nodes.with_key("item").await, 1);
    let mut tries = 0;
    while held.is_held() {
        let taken = other.lock("item").wait(Duration::ZERO).acquire().await;
        assert!(taken.is_err() || !held.is_held(), "{taken:?}");
        tries += 1;
    }
    assert!(tries > 3, "the lease was over before anybody tried");
}

fn dlock_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}
