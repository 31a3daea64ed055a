//! Tests of `fair`: turns strictly in order of arrival at the server, over all processes, even if
//! some are killed or stopped.

use std::time::{Duration, Instant};

use dlock_harness::{Child, Interval, check_exclusive, until, wait};

use crate::fleet::CAP;
use crate::item::{CLAIM, HEARTBEAT, Item, pid_of};

async fn in_order_of_arrival(item: &Item, alive: &mut [Child], order: &[u32]) {
    let mut turns: Vec<Interval> = Vec::new();
    for child in alive.iter_mut() {
        child.expect_line("done", CAP).await;
        assert!(child.wait(CAP).await.success(), "{:#?}", child.lines());
        let lines = child.lines();
        let mut its: Vec<_> = lines.iter().filter_map(|it| Interval::parse(it)).collect();
        its.sort_by_key(|turn| turn.start_ns);
        let numbers: Vec<u64> = its.iter().map(task_of).collect();
        assert!(numbers.is_sorted(), "its own order: {numbers:?}");
        turns.extend(its);
    }
    check_exclusive(&turns).unwrap();
    turns.sort_by_key(|turn| turn.start_ns);
    let had: Vec<u32> = turns.iter().map(process_of).collect();
    assert_eq!(had, order, "in order of arrival");
    item.nothing_is_left().await;
}

fn process_of(turn: &Interval) -> u32 {
    turn.who.split(' ').nth(1).unwrap().parse().unwrap()
}

fn task_of(turn: &Interval) -> u64 {
    turn.who.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The pids of the waiting entries, in order of arrival.
async fn arrivals(item: &Item) -> Vec<u32> {
    let places = item.places().await;
    places.iter().map(|place| pid_of(place)).collect()
}

#[tokio::test]
async fn all_processes_in_order_of_arrival_but_the_killed_one_at_once() {
    let item = Item::new().await;
    let door = item.close("x").await;
    let mut line = Vec::new();
    for seed in 1..=4 {
        line.push(item.asks("fair", seed, 8, 2));
    }
    until("all are in the queue", CAP, async || {
        item.places().await.len() == 32
    })
    .await;
    let mut doomed = line.remove(1);
    let mut order = arrivals(&item).await;
    let changes = order.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes >= 4, "they came one process after the other");
    doomed.kill();
    order.retain(|pid| *pid != doomed.pid());
    let freed = Instant::now();
    door.release().await.unwrap();
    in_order_of_arrival(&item, &mut line, &order).await;
    let took = freed.elapsed();
    // Eight dead entries: one claim granted to them would cost 3 s.
    assert!(took < wait::scaled(Duration::from_millis(2500)), "{took:?}");
}

/// A stopped process has ten entries at the head of the queue; their number does not matter.
#[tokio::test]
async fn a_process_stopped_for_long_is_passed_over_at_once() {
    let item = Item::new().await;
    let door = item.close("x").await;
    let stopped = item.asks("fair", 1, 10, 0);
    item.until_entries(10).await;
    let mut line = [item.asks("fair", 2, 4, 0)];
    item.until_entries(14).await;
    stopped.stop();
    item.until_lapsed(10).await;
    let freed = Instant::now();
    door.release().await.unwrap();
    let order = [line[0].pid(); 4];
    line[0].expect_line("begins", CAP).await;
    let took = freed.elapsed();
    assert!(took < wait::scaled(Duration::from_millis(2500)), "{took:?}");
    until("all have had it", CAP, async || {
        line[0].lines().iter().any(|said| said == "done")
    })
    .await;
    // When the process continues, it queues again at the end, and has its turns.
    stopped.cont();
    let mut both = line.into_iter().chain([stopped]).collect::<Vec<_>>();
    let order = [&order[..], &[both[1].pid(); 10]].concat();
    in_order_of_arrival(&item, &mut both, &order).await;
}

/// One entry of a process that was stopped just now may still be granted the lock, which costs a
/// claim.
#[tokio::test]
async fn a_process_stopped_just_now_costs_one_claim_and_its_heartbeat() {
    let item = Item::new().await;
    let door = item.close("x").await;
    let stopped = item.asks("fair", 1, 10, 0);
    item.until_entries(10).await;
    let mut line = item.asks("fair", 2, 1, 0);
    item.until_entries(11).await;
    stopped.stop();
    let freed = Instant::now();
    door.release().await.unwrap();
    line.expect_line("begins", CAP).await;
    let took = freed.elapsed();
    let bound = HEARTBEAT + CLAIM + Duration::from_secs(2);
    assert!(took < wait::scaled(bound), "{took:?}");
}
