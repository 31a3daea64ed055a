//! Kills or stops waiters at the head of the queue while others hold the lock and go on renewing
//! it: a writer that blocks the readers behind it, a request for more permits than are left. Such a
//! waiter is not granted anything, so the server notices its death only by its missing heartbeats.

use std::time::Instant;

use dlock_harness::wait;

use crate::fleet::CAP;
use crate::item::{CLAIM, HEARTBEAT, Item, POLL, SLACK, had_after};

/// The kinds of the holder, of the head of the queue, and of waiters that would fit if the head
/// were not there.
type Kinds = [&'static str; 3];

const WRITER: Kinds = ["r", "w", "r"];
const BIG: Kinds = ["p:1/3", "p:3/3", "p:1/3"];

/// How the head fails.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    Killed,
    Stopped,
}

/// A process has `many` waiters at the head; when it has been silent for too long, and not before,
/// the waiters behind it get the lock. A stopped process then continues, and gets its turns.
async fn stops_nobody(kinds: Kinds, many: u64, fault: Fault) {
    let [holds, first, behind] = kinds;
    let item = Item::new().await;
    let holder = item.close(holds).await;
    let mut head = item.asks(first, 1, many, 0);
    item.until_entries(usize::try_from(many).unwrap()).await;
    let waiters = [item.waits(behind).await, item.waits(behind).await];
    assert!(
        waiters.iter().all(|it| !it.is_finished()),
        "behind a live one"
    );
    match fault {
        Fault::Killed => head.kill(),
        Fault::Stopped => head.stop(),
    }
    let since = Instant::now();
    let mut guards = Vec::new();
    for waiter in waiters {
        let (guard, took) = had_after(waiter, since).await;
        assert!(took < wait::scaled(HEARTBEAT + POLL + SLACK), "{took:?}");
        guard.verify().await.unwrap();
        guards.push(guard);
    }
    holder.verify().await.unwrap();
    if fault == Fault::Stopped {
        head.cont();
        // It is at the head again, and all others release.
        item.until_entries(usize::try_from(many).unwrap()).await;
        drop((holder, guards));
        head.expect_line("done", CAP).await;
    } else {
        drop((holder, guards));
    }
    item.nothing_is_left().await;
}

#[tokio::test]
async fn a_killed_writer_stops_no_reader() {
    stops_nobody(WRITER, 1, Fault::Killed).await;
}

#[tokio::test]
async fn a_stopped_writer_stops_no_reader() {
    stops_nobody(WRITER, 1, Fault::Stopped).await;
}

#[tokio::test]
async fn twenty_stopped_writers_stop_readers_no_longer_than_one() {
    stops_nobody(WRITER, 20, Fault::Stopped).await;
}

#[tokio::test]
async fn a_killed_big_request_stops_no_small_one() {
    stops_nobody(BIG, 1, Fault::Killed).await;
}

#[tokio::test]
async fn a_stopped_big_request_stops_no_small_one() {
    stops_nobody(BIG, 1, Fault::Stopped).await;
}

/// A process that is stopped just as it is granted the lock costs one claim, as with the exclusive
/// lock.
#[tokio::test]
async fn a_writer_stopped_as_its_turn_comes_costs_one_claim() {
    let item = Item::new().await;
    let holder = item.close("w").await;
    let head = item.asks("w", 1, 1, 0);
    item.until_entries(1).await;
    let waiter = item.waits("r").await;
    head.stop();
    let since = Instant::now();
    holder.release().await.unwrap();
    let (guard, took) = had_after(waiter, since).await;
    let bound = CLAIM + POLL + SLACK;
    assert!(took < wait::scaled(bound), "{took:?}");
    guard.verify().await.unwrap();
}
