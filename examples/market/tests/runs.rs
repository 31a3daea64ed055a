//! Whole but short runs: their reports match the audit, and the audit catches a way without
//! exclusion.

use std::ops::RangeInclusive;
use std::time::Duration;

use dlock_harness::wait::within;
use dlock_harness::{RedisServer, until};

use super::lab::{Careless, place};
use super::program::{CAP, Ended, Run};
use crate::error::MarketError;
use crate::load::{self, Size};
use crate::report::Report;
use crate::ways::{Coarse, Optimistic, Way};

const SHORT: Duration = Duration::from_millis(500);

/// Runs until each answer was given; without correct books the program fails.
async fn keeps_the_books(way: &str, name: &str, retries: RangeInclusive<u64>) {
    let mut seconds = 1;
    loop {
        let run = Run::start(&format!("--way {way} --seconds {seconds}"));
        let Ended { status, said, told } = run.ended().await;
        assert_eq!(status, Some(0), "{told}");
        assert!(said.contains(Report::HEAD), "{said}");
        let row = format!("| {name} | 5/5 | ");
        let row = said.lines().find_map(|line| line.strip_prefix(&row));
        let cells: Vec<&str> = row.unwrap().trim_end_matches(" |").split(" | ").collect();
        let [listed, bought, met, mean, p99, _, refused @ ..] = cells.as_slice() else {
            panic!("{said}");
        };
        let number = |cell: &str| cell.parse::<u64>().unwrap();
        let (_, items) = said.split_once("Audited after each run (3): ").unwrap();
        let items = number(items.split(' ').next().unwrap());
        assert!(
            number(bought) <= number(listed) && number(listed) <= items,
            "{said}"
        );
        assert!(number(met) <= *retries.end(), "{said}");
        let refused: Vec<u64> = refused.iter().map(|cell| number(cell)).collect();
        if !refused.contains(&0) && number(bought) > 0 && retries.contains(&number(met)) {
            assert_eq!(refused.len(), 3, "{said}");
            let times = [mean, p99].map(|time| time.parse::<f64>().unwrap());
            assert!(times.iter().all(|time| *time > 0.0), "{said}");
            return;
        }
        seconds *= 2; // the machine may be busy
        assert!(seconds < CAP.as_secs(), "{said}");
    }
}

#[tokio::test]
async fn watched() {
    keeps_the_books("watch", "WATCH/MULTI/EXEC", 1..=u64::MAX).await;
}

#[tokio::test]
async fn under_one_lock() {
    keeps_the_books("market", "one lock", 0..=0).await; // nobody waits for 5 s
}

#[tokio::test]
async fn under_a_lock_per_item() {
    keeps_the_books("item", "lock per item", 0..=0).await; // nobody waits for 5 s
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
    assert!(
        story.starts_with("the lock server can't be reached ("),
        "{story}"
    );
}
