//! Several processes count under one lock while a minority of the nodes fails, in each way in turn.

use std::time::Duration;

use dlock_harness::{RedisServer, now_ns, until};

use crate::CAP;
use crate::fleet::{Fleet, TTL};
use crate::nodes::Nodes;

const SHORT: Duration = Duration::from_millis(3);

/// What happens to a node.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// It is killed, and comes back with what it has persisted: nothing, for most nodes.
    Killed,
    Hung,
    /// 250 ms each way.
    Slow,
    /// Its cable is pulled, and plugged in when the connections are gone.
    CutOff,
    /// All connections are reset, and new ones refused.
    Refused,
    /// It executes what it is sent, and nobody hears of it.
    Mute,
    /// Held back, and then all delivered at once.
    Stalled,
}

const FAULTS: [Fault; 7] = [
    Fault::Hung,
    Fault::Slow,
    Fault::CutOff,
    Fault::Refused,
    Fault::Mute,
    Fault::Stalled,
    Fault::Killed,
];

impl Fault {
    fn begin(self, fleet: &Fleet, node: usize) {
        let wire = &fleet.wires[node];
        match self {
            Fault::Killed => fleet.nodes.0[node].kill9(),
            Fault::Hung => fleet.nodes.0[node].stop_signal(),
            Fault::Slow => wire.delay(Duration::from_millis(250)),
            Fault::CutOff => wire.blackhole(),
            Fault::Refused => {
                wire.refuse();
                wire.cut_all();
            }
            Fault::Mute => wire.drop_replies(),
            Fault::Stalled => wire.stall(),
        }
    }

    fn end(self, fleet: &Fleet, node: usize) {
        match self {
            Fault::Killed => fleet.nodes.0[node].restart(),
            Fault::Hung => fleet.nodes.0[node].cont(),
            Fault::Slow | Fault::CutOff | Fault::Refused | Fault::Mute | Fault::Stalled => {
                fleet.wires[node].pass();
            }
        }
    }
}

/// The last node keeps its data over a restart, and the others lose it.
fn nodes(number: usize) -> Nodes {
    let forgetful = (1..number).map(|_| RedisServer::start());
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let keeps = RedisServer::builder().args(always).start();
    Nodes(forgetful.chain([keeps]).collect())
}

/// Lets each fault happen to a minority, each time other nodes.
async fn storm(number: usize, minority: usize, faults: &[Fault]) {
    let fleet = Fleet::start(nodes(number), 3, SHORT).await;
    let mut first = 0;
    for fault in faults {
        let hit: Vec<_> = (first..first + minority).map(|it| it % number).collect();
        first += minority;
        for node in &hit {
            fault.begin(&fleet, *node);
        }
        fleet.progresses(&format!("{fault:?} {hit:?}")).await;
        fleet.counts(10).await;
        for node in &hit {
            fault.end(&fleet, *node);
        }
        fleet.progresses(&format!("{fault:?} {hit:?} ended")).await;
        fleet.nodes.until_voting(TTL).await; // after a restart, it takes a while
    }
    let outcome = fleet.finish().await;
    outcome.check();
    println!("{number} nodes: {} counts", outcome.accepted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_three_nodes_fails_in_every_way() {
    storm(3, 1, &FAULTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_of_three_nodes_is_killed() {
    storm(3, 1, &[Fault::Killed; 3]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "the same again with more nodes, under `tests/run.sh --all`"]
async fn two_of_five_nodes_fail_in_every_way() {
    storm(5, 2, &FAULTS).await;
}

/// A lock is at two nodes, since the third hung when it was taken; one of them restarts empty, and the
/// third goes on. Those two have never heard of the lock, and many want it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_lose_a_held_lock_let_nobody_in() {
    let body = TTL * 7 / 10;
    let fleet = Fleet::start(Nodes::start(3), 8, body).await;
    for turn in 0..4 {
        let (hung, emptied) = (turn % 3, (turn + 1) % 3);
        fleet.nodes.0[hung].stop_signal();
        // The next body may have had the vote of the node that hangs now, the one after it has not.
        let begun = fleet.begun();
        until("a body begins without the node", CAP, async || {
            fleet.begun() >= begun + 2
        })
        .await;
        fleet.nodes.0[emptied].kill9();
        fleet.nodes.0[emptied].restart_empty();
        // What the holder sent to the node that hangs is too late by now to create anything.
        dlock_harness::wait::pause(TTL * 35 / 100).await;
        fleet.nodes.0[hung].cont();
        fleet
            .progresses(&format!("{hung} goes on without {emptied}"))
            .await;
        fleet.nodes.until_voting(TTL).await;
    }
    fleet.finish().await.check();
}

/// A process is killed while it holds the lock, with a node down: the others go on after its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_holder_leaves_nothing_for_longer_than_its_lease() {
    let mut fleet = Fleet::start(Nodes::start(3), 3, Duration::from_millis(100)).await;
    fleet.nodes.0[1].stop_signal();
    let holder = inside(&fleet, 0).await;
    let mut killed = fleet.workers.remove(holder);
    killed.kill();
    fleet.progresses("the holder was killed").await;
    fleet.nodes.0[1].cont();
    fleet.finish().await.check();
}

/// A process is stopped inside its body for longer than its lease, and the others go on. When it is
/// continued, its body is not executed any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_holder_does_not_go_on() {
    let fleet = Fleet::start(Nodes::start(3), 3, Duration::from_millis(300)).await;
    for paused in [0, 1] {
        inside_of(&fleet, paused).await;
        fleet.workers[paused].stop();
        let stopped = now_ns();
        until("another holds the lock", CAP, async || {
            let begun = |it: &dlock_harness::Interval| it.start_ns > stopped;
            fleet.intervals().iter().any(begun)
        })
        .await;
        fleet.workers[paused].cont();
        fleet.progresses("it was continued").await;
    }
    let outcome = fleet.finish().await;
    outcome.check_fences();
    dlock_harness::check_exclusive(&outcome.intervals).unwrap();
}

/// A worker that is inside its body now.
async fn inside(fleet: &Fleet, from: usize) -> usize {
    let mut found = None;
    until("a worker is inside", CAP, async || {
        found = (from..fleet.workers.len()).find(|it| is_inside(fleet, *it));
        found.is_some()
    })
    .await;
    found.unwrap()
}

async fn inside_of(fleet: &Fleet, worker: usize) {
    until("this worker is inside", CAP, async || {
        is_inside(fleet, worker)
    })
    .await;
}

fn is_inside(fleet: &Fleet, worker: usize) -> bool {
    let lines = fleet.workers[worker].lines();
    lines.last().is_some_and(|it| it.starts_with("holds "))
}
