//! A watch tells what is there, and then each change.

use std::time::Duration;

use dlock_runtime::{Change, LockPool, Watch};

use super::{CAP, LONG, Lab, held, pool, wait};

const SOON: Duration = Duration::from_millis(100);

async fn next(watch: &mut Watch) -> (String, Change) {
    let change = tokio::time::timeout(CAP, watch.next()).await;
    let change = change.expect("something changed").unwrap();
    assert_eq!(change.lock().is_none(), change.change() == Change::Freed);
    (change.key().to_owned(), change.change())
}

fn at(key: &str, change: Change) -> (String, Change) {
    (key.to_owned(), change)
}

#[tokio::test]
async fn the_life_of_a_lock() {
    let lab = Lab::new().await;
    let first = held(lab.here.lock("item:7")).await;
    let mut watch = lab.admin.watch("item:*").every(SOON);
    assert_eq!(next(&mut watch).await, at("item:7", Change::Found));
    let other = held(lab.here.lock("item:8")).await;
    let _unseen = held(lab.here.lock("order:8")).await;
    assert_eq!(next(&mut watch).await, at("item:8", Change::Taken));
    let waiter = wait(&lab.admin, lab.there.lock("item:7"), "item:7", 1).await;
    assert_eq!(next(&mut watch).await, at("item:7", Change::Queue));
    first.release().await.unwrap();
    let second = waiter.await.unwrap();
    assert_eq!(next(&mut watch).await, at("item:7", Change::Holders));
    second.release().await.unwrap();
    assert_eq!(next(&mut watch).await, at("item:7", Change::Freed));
    other.release().await.unwrap();
    assert_eq!(next(&mut watch).await, at("item:8", Change::Freed));
}

/// A renewal moves a holder behind the others, which is no change.
#[tokio::test]
async fn one_key_on_every_server() {
    let lab = Lab::new().await;
    for pool in [lab.here.clone(), pool("memory://".into()).await] {
        let reader = || pool.lock("catalogue").read();
        let one = held(reader().renew_every(SOON / 2)).await;
        let two = held(reader()).await;
        let mut watch = pool.admin().watch("catalogue").every(Duration::ZERO);
        assert_eq!(next(&mut watch).await, at("catalogue", Change::Found));
        one.extend(LONG * 2).await.unwrap();
        drop_future(&mut watch).await;
        two.release().await.unwrap();
        assert_eq!(next(&mut watch).await, at("catalogue", Change::Holders));
        one.release().await.unwrap();
        assert_eq!(next(&mut watch).await, at("catalogue", Change::Freed));
    }
}

/// Waits for a change that does not come, and gives up.
async fn drop_future(watch: &mut Watch) {
    let nothing = tokio::time::timeout(SOON * 3, watch.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

#[tokio::test]
async fn an_outage_is_an_error_and_then_it_goes_on() {
    let lab = Lab::new().await;
    let _first = held(lab.here.lock("a")).await;
    let mut watch = lab.admin.watch("*").every(SOON);
    assert_eq!(next(&mut watch).await, at("a", Change::Found));
    lab.server.kill9();
    let error = tokio::time::timeout(CAP, watch.next()).await.unwrap();
    assert!(error.is_err(), "{error:?}");
    lab.server.restart_empty();
    let here: LockPool = lab.there;
    let _second = held(here.lock("b")).await;
    let mut changes = Vec::new();
    while changes.len() < 2 {
        if let Ok(change) = tokio::time::timeout(CAP, watch.next()).await.unwrap() {
            changes.push((change.key().to_owned(), change.change()));
        }
    }
    assert_eq!(changes, [at("b", Change::Taken), at("a", Change::Freed)]);
}

/// An interval of nothing would ask without end.
#[tokio::test]
async fn it_asks_no_more_often_than_ten_times_a_second() {
    let lab = Lab::new().await;
    let mut watch = lab.admin.watch("*").every(Duration::ZERO);
    lab.server.cmd(&["CONFIG", "RESETSTAT"]).await;
    let nothing = tokio::time::timeout(Duration::from_secs(1), watch.next()).await;
    assert!(nothing.is_err());
    let scans = lab.server.commandstats("scan").await;
    assert!((1..=11).contains(&scans), "{scans}");
}
