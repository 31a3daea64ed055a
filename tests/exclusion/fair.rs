//! Tests of `fair`: turns strictly in order of arrival at the server, over all processes, even if
//! some are killed or stopped.

use std::time::{Duration, Instant};

use dlock_harness::{Child, Interval, check_exclusive, wait};

use crate::fleet::{CAP, done};
use crate::item::{CLAIM, HEARTBEAT, Item, pid_of, task_of};

/// A task of a process.
type Who = (u32, u64);

async fn in_order_of_arrival(item: &Item, alive: &mut [Child], order: &[Who]) {
    let mut turns: Vec<Interval> = Vec::new();
    for child in alive.iter_mut() {
        turns.extend(done(child).await);
    }
    check_exclusive(&turns).unwrap();
    turns.sort_by_key(|turn| turn.start_ns);
    let had: Vec<Who> = turns.iter().map(who).collect();
    assert_eq!(had, order, "in order of arrival");
    item.nothing_is_left().await;
}

fn who(turn: &Interval) -> Who {
    let words: Vec<_> = turn.who.split(' ').collect();
    (words[1].parse().unwrap(), words[3].parse().unwrap())
}

/// Who waits, in order of arrival.
async fn arrivals(item: &Item) -> Vec<Who> {
    let places = item.places().await;
    let who = |place: &String| (pid_of(place), task_of(place));
    places.iter().map(who).collect()
}

/// The tasks of a process that asked one after the other.
fn one_by_one(order: &[Who], process: u32) -> bool {
    let its = order.iter().filter(|(pid, _)| *pid == process);
    its.is_sorted_by_key(|(_, task)| task)
}

#[tokio::test]
async fn all_processes_in_order_of_arrival_but_the_killed_one_at_once() {
    let item = Item::new().await;
    let door = item.close("x").await;
    let mut line = Vec::new();
    for seed in 1..=4 {
        line.push(item.asks("fair", seed, 8, 2));
    }
    item.until_entries(32).await;
    let mut doomed = line.remove(1);
    let mut order = arrivals(&item).await;
    let changes = order.windows(2).filter(|pair| pair[0].0 != pair[1].0);
    assert!(
        changes.count() >= 4,
        "they came one process after the other"
    );
    let mut pids = line.iter().map(Child::pid);
    assert!(pids.all(|pid| one_by_one(&order, pid)), "{order:?}");
    doomed.kill();
    order.retain(|(pid, _)| *pid != doomed.pid());
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
    let mut line = item.asks("fair", 2, 4, 0);
    item.until_entries(14).await;
    let mut order = arrivals(&item).await.split_off(10);
    assert!(one_by_one(&order, line.pid()), "{order:?}");
    stopped.stop();
    item.until_lapsed(10).await;
    let freed = Instant::now();
    door.release().await.unwrap();
    line.expect_line("begins", CAP).await;
    let took = freed.elapsed();
    assert!(took < wait::scaled(Duration::from_millis(2500)), "{took:?}");
    // When the process continues, its tasks queue again, and have their turns.
    item.until_entries(0).await;
    let door = item.close("x").await;
    stopped.cont();
    item.until_entries(10).await;
    order.extend(arrivals(&item).await);
    door.release().await.unwrap();
    in_order_of_arrival(&item, &mut [line, stopped], &order).await;
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
