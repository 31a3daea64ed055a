//! Holders and waiters that died, gave up, were stopped or cut off: what they cost the waiters
//! behind them.
//!
//! A process is this test program run again, with a variable that tells it to wait or to hold.

use std::time::{Duration, Instant};

use dlock_harness::{Child, Proxy, until, wait};
use dlock_runtime::{Config, LockGuard, LockPool, Wait};
use dlock_tests::locks;
use futures_util::future::join_all;

use crate::lab::{self, CAP, COMMAND, ITEM, LONG, Lab, ON_SERVER, SLACK, tell};
use crate::waiters::{A, AT_ONCE, CLAIM, HEARTBEAT, Turn, W, Waiter, item, turn};

/// How many dead waiters stand at the head of the queue.
const TEN: usize = 10;

/// Leases that end one after the other, so that a machine that stalls for a while is late for few
/// of them.
const LEASES: [u64; 9] = [1000, 1450, 1900, 2350, 2800, 3250, 3700, 4150, 4600];

/// A child process: it waits for the item.
#[tokio::test]
#[ignore = "a child process"]
async fn waiter() {
    let Some(url) = lab::server_of_role() else {
        return;
    };
    let pool = LockPool::connect(Config::new(url).connect_timeout(CAP))
        .await
        .unwrap();
    let _held = item(&pool).acquire().await.unwrap();
    tell("held", ());
    std::future::pending::<()>().await;
}

/// A child process: it holds some locks for as long as it lives.
#[tokio::test]
#[ignore = "a child process"]
async fn holder() {
    let Some(url) = lab::server_of_role() else {
        return;
    };
    let pool = LockPool::connect(Config::new(url).connect_timeout(CAP))
        .await
        .unwrap();
    let mut held = Vec::new();
    for lease in LEASES {
        let lock = pool.lock(lease.to_string());
        let lock = lock.ttl(Duration::from_millis(lease)).renew();
        held.push(lock.wait(Wait::Once).acquire().await.unwrap());
    }
    tell("held", ());
    std::future::pending::<()>().await;
}

fn waiting_child(url: &str) -> Child {
    lab::child("waiting_dead::waiter", url)
}

/// Ten processes at the head of the queue, and one waiter of this process behind them.
struct Fleet {
    lab: Lab,
    holder: LockGuard,
    ahead: Vec<Child>,
    last: Waiter,
}

impl Fleet {
    async fn of(dead: usize) -> Self {
        let lab = Lab::new();
        let holder = item(&lab.direct().await).acquire().await.unwrap();
        let mut ahead = Vec::new();
        for number in 1..=dead {
            ahead.push(waiting_child(&lab.server.url()));
            lab.until_queued(number).await;
        }
        let last = lab.queued(&lab.pool().await).await;
        Self {
            lab,
            holder,
            ahead,
            last,
        }
    }

    /// Gives the lock back; returns how long the last waiter waits for its turn, and how many
    /// grants that took.
    async fn hand_over(self) -> (Duration, u64) {
        hand_over(&self.lab, self.holder, self.last).await
    }
}

async fn hand_over(lab: &Lab, holder: LockGuard, last: Waiter) -> (Duration, u64) {
    let published = lab.server.commandstats("publish").await;
    let freed = Instant::now();
    holder.release().await.unwrap();
    let Turn { at, guard } = turn(last).await;
    lab.is_its(&guard).await;
    let published = lab.server.commandstats("publish").await - published;
    (at - freed, published)
}

/// Waits until the heartbeats of the first `count` in the queue have lapsed.
async fn until_lapsed(lab: &Lab, count: usize) {
    locks::until_lapsed(&lab.server, ITEM, count, CAP).await;
}

#[tokio::test]
async fn a_lock_of_a_killed_holder_is_had_when_its_lease_ends() {
    let lab = Lab::new();
    let mut child = lab::child("waiting_dead::holder", &lab.server.url());
    child.expect_line("held", CAP).await;
    let pool = lab.pool().await;
    let mut waiters = Vec::new();
    for lease in LEASES {
        let lock = pool.lock(lease.to_string()).ttl(LONG).wait(Wait::Forever);
        waiters.push(crate::waiters::waits(lock));
    }
    for lease in LEASES {
        locks::until_queued(&lab.server, &lease.to_string(), 1, CAP).await;
    }
    child.kill();
    let (mut turns, direct) = (Vec::new(), lab.direct().await);
    for (lease, waiter) in LEASES.into_iter().zip(waiters) {
        let left = lab.server.pttl(&format!("lock:{lease}")).await;
        let end = Instant::now() + Duration::from_millis(left.try_into().unwrap_or(0));
        turns.push((end, waiter, asks_at(end, &direct)));
    }
    let mut late = Vec::new();
    for (end, waiter, other) in turns {
        let (turn, other) = (turn(waiter).await, other.await.unwrap());
        let by_itself = other.saturating_duration_since(end);
        late.push(
            turn.at
                .saturating_duration_since(end)
                .saturating_sub(by_itself),
        );
    }
    late.sort_unstable();
    let (median, worst) = (late[LEASES.len() / 2], late[LEASES.len() - 1]);
    let promised = Duration::from_millis(200);
    assert!(median < wait::scaled(promised), "{late:?}");
    assert!(worst < wait::scaled(promised + SLACK * 2), "{late:?}");
}

/// Measures how late this machine is by itself: when a task that knows the moment has asked the
/// server something.
fn asks_at(end: Instant, pool: &LockPool) -> tokio::task::JoinHandle<Instant> {
    let pool = pool.clone();
    tokio::spawn(async move {
        tokio::time::sleep_until(end.into()).await;
        let _ = pool.ping().await;
        Instant::now()
    })
}

#[tokio::test]
async fn killed_waiters_are_skipped_at_once() {
    let mut fleet = Fleet::of(3).await;
    for child in &mut fleet.ahead {
        child.kill();
    }
    fleet.lab.no_polls();
    let (took, published) = fleet.hand_over().await;
    assert!(took < wait::scaled(AT_ONCE), "took {took:?}");
    assert_eq!(published, 4, "three reached nobody");
}

/// What dead waiters leave has a time to live; no process has to clean up.
#[tokio::test]
async fn the_queue_of_killed_waiters_ends_by_itself() {
    let lab = Lab::new();
    let _holder = item(&lab.direct().await).acquire().await.unwrap();
    let mut child = waiting_child(&lab.server.url());
    lab.until_queued(1).await;
    child.kill();
    for key in [W, A] {
        let left = lab.server.pttl(key).await;
        assert!((1..=7000).contains(&left), "{key} ends in {left} ms");
    }
    until("the queue is gone", CAP, async || {
        lab.locks().await == [ON_SERVER]
    })
    .await;
}

#[tokio::test]
async fn waiters_that_gave_up_are_skipped_at_once() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let dropped = lab.queued(&lab.direct().await).await;
    let other = lab.direct().await;
    let over = tokio::spawn(other.lock(ITEM).wait(COMMAND).acquire());
    lab.until_queued(2).await;
    let last = lab.queued(&pool).await;
    dropped.abort();
    over.await.unwrap().unwrap_err();
    lab.until_queued(1).await;
    lab.no_polls();
    let (took, published) = hand_over(&lab, holder, last).await;
    assert!(took < wait::scaled(AT_ONCE), "took {took:?}");
    assert_eq!(published, 1, "it is the first");
}

#[tokio::test]
async fn a_stopped_waiter_costs_one_claim_at_most() {
    let fleet = Fleet::of(1).await;
    fleet.ahead[0].stop();
    let (took, published) = fleet.hand_over().await;
    assert_eq!(published, 2, "the stopped one was told first");
    assert!(took < wait::scaled(CLAIM + SLACK * 2), "took {took:?}");
}

#[tokio::test]
async fn ten_waiters_stopped_just_now_cost_no_more_than_until_they_count_as_dead() {
    let fleet = Fleet::of(TEN).await;
    for child in &fleet.ahead {
        child.stop();
    }
    let (took, published) = fleet.hand_over().await;
    assert!(published <= 3, "{published} grants");
    // Waiters without a heartbeat for 3.5 s are skipped; one may be granted the lock at the end of
    // that time.
    let bound = HEARTBEAT + CLAIM + SLACK * 3;
    assert!(took < wait::scaled(bound), "took {took:?}");
}

#[tokio::test]
async fn ten_waiters_stopped_for_long_cost_nothing() {
    let fleet = Fleet::of(TEN).await;
    for child in &fleet.ahead {
        child.stop();
    }
    until_lapsed(&fleet.lab, TEN).await;
    fleet.lab.no_polls();
    let (took, published) = fleet.hand_over().await;
    assert_eq!(published, 1, "none of the ten was told");
    assert!(took < wait::scaled(HEARTBEAT), "took {took:?}");
}

/// After they wake they wait on, and have their turns.
#[tokio::test]
async fn waiters_that_were_stopped_for_long_get_their_turn_when_they_go_on() {
    let mut fleet = Fleet::of(2).await;
    for child in &fleet.ahead {
        child.stop();
    }
    until_lapsed(&fleet.lab, 2).await;
    let Fleet {
        lab, holder, last, ..
    } = fleet;
    holder.release().await.unwrap();
    let last = turn(last).await;
    for child in &fleet.ahead {
        child.cont();
    }
    lab.until_queued(2).await;
    last.guard.release().await.unwrap();
    for _ in 0..2 {
        let mut first = None;
        until("one has its turn", CAP, async || {
            let says = |child: &Child| child.lines().iter().any(|line| line.starts_with("held"));
            first = fleet.ahead.iter().position(says);
            first.is_some()
        })
        .await;
        // The child never releases, and without the `DEL` the next waiter would have to wait for
        // its lease to end.
        fleet.ahead.remove(first.unwrap()).kill();
        lab.server.cmd(&["DEL", ON_SERVER]).await;
    }
}

/// Ten pools whose wire went silent, and one waiter behind them.
struct Dark {
    lab: Lab,
    wire: Proxy,
    ahead: Vec<Waiter>,
    holder: LockGuard,
    last: Waiter,
}

impl Dark {
    async fn ten() -> Self {
        let lab = Lab::new();
        let holder = item(&lab.direct().await).acquire().await.unwrap();
        let wire = Proxy::start(lab.server.addr());
        let mut ahead = Vec::new();
        for _ in 0..TEN {
            let config = Config::new(wire.url()).connect_timeout(CAP);
            let pool = LockPool::connect(config).await.unwrap();
            ahead.push(lab.queued(&pool).await);
        }
        let last = lab.queued(&lab.pool().await).await;
        wire.blackhole();
        Self {
            lab,
            wire,
            ahead,
            holder,
            last,
        }
    }
}

#[tokio::test]
async fn ten_half_open_waiters_cost_no_more_than_until_they_count_as_dead() {
    let dark = Dark::ten().await;
    let (took, published) = hand_over(&dark.lab, dark.holder, dark.last).await;
    assert!(published <= 3, "{published} grants");
    let bound = HEARTBEAT + CLAIM + SLACK * 3;
    assert!(took < wait::scaled(bound), "took {took:?}");
}

#[tokio::test]
async fn ten_waiters_half_open_for_long_cost_nothing_and_get_their_turn_when_the_wire_heals() {
    let dark = Dark::ten().await;
    until_lapsed(&dark.lab, TEN).await;
    let lab = dark.lab;
    let (took, published) = {
        lab.no_polls();
        let measured = hand_over(&lab, dark.holder, dark.last).await;
        lab.all_passes();
        measured
    };
    assert_eq!(published, 1, "none of the ten was told");
    assert!(took < wait::scaled(HEARTBEAT), "took {took:?}");
    dark.wire.pass();
    let turns = dark.ahead.into_iter().map(async |waiter| {
        turn(waiter).await.guard.release().await.unwrap();
    });
    join_all(turns).await;
    lab.until_at_rest().await;
}
