//! Whole but short runs: their reports match the audit, and the audit catches a way without
//! exclusion.

use std::sync::atomic::Ordering;
use std::time::Duration;

use dlock_harness::wait::within;
use dlock_harness::{RedisServer, until};

use super::lab::{Careless, place};
use crate::error::MarketError;
use crate::load::{self, Size};
use crate::report::Report;
use crate::ways::{Coarse, Optimistic, PerItem, Way};

const SHORT: Duration = Duration::from_millis(500);

/// Longer than any run takes that ends.
const CAP: Duration = Duration::from_secs(30);

/// Runs until something was bought; without correct books there is no report.
async fn keeps_the_books<W: Way>() -> Report {
    let server = RedisServer::start();
    let mut place = place(&server, SHORT);
    loop {
        let report = within(CAP, load::run::<W>(&place, Size::new(5, 5))).await;
        let report = report.expect("a run ends").unwrap();
        assert_eq!(server.keys().await, Vec::<String>::new());
        if report.bought > 0 && report.listed > 0 {
            assert!(report.bought <= report.listed, "{report:?}");
            assert!(report.listed <= report.items, "{report:?}");
            assert!(report.mean > Duration::ZERO && report.p99 > Duration::ZERO);
            return report;
        }
        place.length *= 2; // the machine may be busy
        assert!(place.length < CAP, "{report:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watched() {
    keeps_the_books::<Optimistic>().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_one_lock() {
    let report = keeps_the_books::<Coarse>().await;
    assert_eq!(report.retries, 0, "nobody waits for 5 s");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_a_lock_per_item() {
    let report = keeps_the_books::<PerItem>().await;
    assert_eq!(report.retries, 0, "nobody waits for 5 s");
}

/// Ten participants read before any writes, so the load collides, and the audit finds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_way_without_a_lock_is_caught() {
    let server = RedisServer::start();
    let mut place = place(&server, SHORT);
    let error = loop {
        match load::run::<Careless>(&place, Size::new(5, 5)).await {
            Err(error) => break error,
            Ok(_) => place.length *= 2,
        }
        assert!(place.length < CAP, "nobody met");
    };
    let MarketError::Books { way, size, found } = &error else {
        panic!("{error:?}");
    };
    assert_eq!((*way, *size), ("no lock", Size::new(5, 5)));
    assert!(!found.is_empty());
    let told = error.to_string();
    assert!(
        told.starts_with("no lock, 5/5: the books do not balance: item "),
        "{told}"
    );
    assert!(
        told.contains("in two places") || told.contains("sold twice"),
        "{told}"
    );
}

/// A run that is told to stop ends at once, and its results count.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_told_to_stop() {
    let server = RedisServer::start();
    let place = place(&server, Duration::from_secs(3600));
    let told = place.told.clone();
    let run = tokio::spawn(async move { load::run::<PerItem>(&place, Size::new(1, 1)).await });
    until("something was bought", CAP, async || {
        server.commandstats("hincrby").await > 0
    })
    .await;
    told.store(true, Ordering::Relaxed);
    let report = within(CAP, run).await.expect("it ends").unwrap().unwrap();
    assert!(report.bought > 0, "{report:?}");
}

/// Its connection is cut; the others could go on for an hour.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_fails_ends_the_run() {
    let server = RedisServer::start();
    let place = place(&server, Duration::from_secs(3600));
    let run = tokio::spawn(async move { load::run::<Optimistic>(&place, Size::new(2, 2)).await });
    until("somebody's connection is cut", CAP, async || {
        let clients: String = server.ask(&["CLIENT", "LIST"]).await;
        let busy = clients.lines().find(|client| client.contains(" cmd=exec "));
        let Some(id) = busy.and_then(|client| client.strip_prefix("id=")) else {
            return false;
        };
        let (id, _) = id.split_once(' ').unwrap();
        server.ask::<u64>(&["CLIENT", "KILL", "ID", id]).await == 1
    })
    .await;
    let ran = within(CAP, run).await.expect("it ends").unwrap();
    assert!(matches!(ran, Err(MarketError::Redis(_))), "{ran:?}");
    assert_eq!(server.keys().await, Vec::<String>::new());
}

/// The server dies during a run.
async fn outage<W: Way>() -> MarketError {
    let server = RedisServer::start();
    let place = place(&server, Duration::from_secs(3600));
    let run = tokio::spawn(async move { load::run::<W>(&place, Size::new(5, 5)).await });
    until("something was listed", CAP, async || {
        server.commandstats("srem").await > 0
    })
    .await;
    server.kill9();
    let ran = within(CAP, run).await.expect("it ends").unwrap();
    ran.unwrap_err()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_watched() {
    let error = outage::<Optimistic>().await;
    assert!(matches!(error, MarketError::Redis(_)), "{error:?}");
    let story = error.story();
    assert!(
        story.starts_with("redis did not do what the marketplace asked: "),
        "{story}"
    );
}

/// Nine of ten participants are in the queue, so one fails with a lock's error, which is the one
/// that is reported.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_under_one_lock() {
    let error = outage::<Coarse>().await;
    let MarketError::Lock(lock) = &error else {
        panic!("{error:?}");
    };
    let story = error.story();
    assert!(story.starts_with(&lock.to_string()), "{story}");
    assert!(story.starts_with("redis can't be reached ("), "{story}");
}
