//! Many locks on many nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use dlock_harness::{Cluster, until};
use dlock_runtime::{Eviction, LockError, Notice, Wait};

use crate::{CAP, key_at, pool};

const SECOND: Duration = Duration::from_secs(1);

/// A third of them at each node; renewed together although they are apart.
#[tokio::test]
async fn locks_on_all_nodes_are_held_and_renewed() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    let mut held = Vec::new();
    for number in 0..150 {
        let request = pool.lock(format!("item:{number}")).ttl(SECOND).renew();
        held.push(request.acquire().await.unwrap());
    }
    for node in &cluster.nodes {
        let locks = node.keys().await;
        let locks = locks.iter().filter(|it| it.starts_with("lock:item:"));
        assert!((30..=70).contains(&locks.count()), "about a third");
    }
    tokio::time::sleep(3 * SECOND).await;
    for guard in &held {
        guard.verify().await.unwrap();
    }
    for guard in held {
        guard.release().await.unwrap();
    }
    for node in &cluster.nodes {
        let left = node.keys().await;
        assert!(left.iter().all(|key| key.contains("@fence")), "{left:?}");
    }
    let status = pool.status().unwrap();
    assert!(status.connections >= 3, "one to each node");
    nobody_was_sent_on(&cluster).await;
}

/// Each command went to the node that serves its slot, also of those that are sent together. Only the
/// handshake's question whether the user may read a part of a value names a key of any slot.
async fn nobody_was_sent_on(cluster: &Cluster) {
    let number = |lines: &str, name: &str, field: &str| -> u64 {
        let line = lines.lines().find(|it| it.starts_with(name));
        let field = line.and_then(|it| it.split(field).nth(1));
        let digits = field.and_then(|it| it.split(',').next());
        digits.map_or(0, |it| it.trim().parse().unwrap())
    };
    for node in &cluster.nodes {
        let errors: String = node.ask(&["INFO", "errorstats"]).await;
        let commands: String = node.ask(&["INFO", "commandstats"]).await;
        let asked = number(&commands, "cmdstat_getrange:", "rejected_calls=");
        let moved = number(&errors, "errorstat_MOVED:", "count=");
        assert_eq!(moved, asked, "{errors}");
    }
}

/// The waiter is told by a push: its polls are a second apart.
#[tokio::test]
async fn a_waiter_is_told_at_each_node() {
    let cluster = Cluster::start(3).await;
    let [one, two] = [pool(&cluster).await, pool(&cluster).await];
    for at in 0..3 {
        let key = key_at(&cluster, at).await;
        let mut took = Vec::new();
        for _ in 0..5 {
            let held = one.lock(&*key).acquire().await.unwrap();
            let fence = held.fence();
            let request = two.lock(&*key).wait(Wait::Forever);
            let waiter = tokio::spawn(async move {
                let guard = request.acquire().await.unwrap();
                (dlock_harness::now_ns(), guard)
            });
            until("it waits", CAP, async || two.status().unwrap().waiting == 1).await;
            tokio::time::sleep(SECOND / 20).await; // until it is queued
            let released = dlock_harness::now_ns();
            held.release().await.unwrap();
            let (granted, next) = waiter.await.unwrap();
            assert!(next.fence() > fence);
            took.push(Duration::from_nanos(granted.saturating_sub(released)));
            next.release().await.unwrap();
        }
        took.sort_unstable();
        assert!(took[2] < SECOND / 4, "{took:?}");
    }
}

#[tokio::test]
async fn several_keys_are_one_step_with_a_tag_and_go_in_order_without() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    for keys in [["{t}:1", "{t}:2", "{t}:3"], ["a", "b", "c"]] {
        let all = pool.lock_all(keys).ttl(SECOND).renew().acquire().await;
        let all = all.unwrap();
        for key in keys {
            assert!(all.part(key).is_some());
            let busy = pool.lock(key).wait(Duration::ZERO).acquire().await;
            assert!(matches!(busy, Err(LockError::Busy { .. })), "{busy:?}");
        }
        tokio::time::sleep(2 * SECOND).await;
        all.verify().await.unwrap();
        all.release().await.unwrap();
        for key in keys {
            assert!(pool.holder(key).await.unwrap().is_none());
        }
    }
    nobody_was_sent_on(&cluster).await;
}

#[tokio::test]
async fn an_administrator_sees_all_nodes() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    let mut held = Vec::new();
    for number in 0..60 {
        held.push(pool.lock(format!("job:{number}")).acquire().await.unwrap());
    }
    let mut list = pool.admin().list("job:*");
    let mut seen = BTreeSet::new();
    while let Some(page) = list.next_page().await.unwrap() {
        seen.extend(page.iter().map(|it| it.key().to_string()));
    }
    assert_eq!(seen.len(), 60);
    for number in 0..60 {
        let request = pool.lock(format!("run:{number}"));
        let run = request.once_per(CAP).acquire().await.unwrap();
        run.release_done().await.unwrap();
    }
    let (mut records, mut seen) = (pool.admin().records("run:*"), BTreeSet::new());
    while let Some(page) = records.next_page().await.unwrap() {
        seen.extend(page.into_iter().map(|(key, _)| key));
    }
    assert_eq!(seen.len(), 60);
    for (number, guard) in (0..60).zip(&held) {
        let key = format!("job:{number}");
        let shown = pool.admin().show(&*key).await.unwrap().unwrap();
        assert_eq!(shown.holders().len(), 1);
        if number < 6 {
            let holder = shown.holders()[0].fingerprint();
            let evicted = pool.admin().evict(&*key, holder).await;
            assert_eq!(evicted.unwrap(), Eviction::Done(Notice::Sent));
            guard.verify().await.unwrap_err();
        }
    }
    assert!(pool.ping().await.unwrap() < CAP);
    let findings = pool.check().await.unwrap();
    let about_slots = |it: &dlock_runtime::Finding| it.concern() == dlock_runtime::Concern::Cluster;
    assert!(!findings.iter().any(about_slots), "{findings:#?}");
}
