//! The wall clock of a minority of the nodes is set, by seconds to years, both ways, and then that of
//! a quorum: two may believe to hold the lock, and the resource never takes the older one's word.
//!
//! `clock.c` is what sets it; it is built by the C compiler that links Rust programs, too.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use dlock_harness::RedisServer;

use crate::fleet::Fleet;
use crate::nodes::Nodes;

const SHORT: Duration = Duration::from_millis(3);

/// A body during which others look whether the lock is free.
const LONG: Duration = Duration::from_millis(600);

const YEAR: i64 = 365 * 86_400;

/// A file that says by how many seconds a server's clock is ahead.
struct Clock(PathBuf);

impl Clock {
    fn set(&self, seconds: i64) {
        let file = fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        file.write_all_at(&seconds.to_ne_bytes(), 0).unwrap();
    }
}

fn nodes(directory: &Path) -> (Nodes, Vec<Clock>) {
    let library = directory.join("clock.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/quorum/clock.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library);
    let built = cc.arg(source).status().expect("a C compiler, as `cc`");
    assert!(built.success(), "{built}");
    let clock = |nth| {
        let file = directory.join(format!("clock-{nth}"));
        fs::write(&file, 0_i64.to_ne_bytes()).unwrap();
        Clock(file)
    };
    let clocks: Vec<_> = (0..3).map(clock).collect();
    let server = |clock: &Clock| {
        RedisServer::builder()
            .env("LD_PRELOAD", library.display().to_string())
            .env("CLOCK_AHEAD", clock.0.display().to_string())
            .start()
    };
    (Nodes(clocks.iter().map(server).collect()), clocks)
}

/// The node's time, in seconds.
async fn time(node: &RedisServer) -> i64 {
    let (seconds, _): (i64, i64) = node.ask(&["TIME"]).await;
    seconds
}

/// Steps of these clocks, each followed by more counts. How many counts were refused, and whether
/// two bodies were ever executed at once.
async fn steps(set: &[usize], seconds: &[i64], body: Duration) -> (u64, Result<(), String>) {
    let directory = tempfile::tempdir().unwrap();
    let (nodes, clocks) = nodes(directory.path());
    let fleet = Fleet::start(nodes, 3, body).await;
    let mut ahead = 0;
    for step in seconds {
        let before = time(&fleet.nodes.0[set[0]]).await;
        for node in set {
            clocks[*node].set(*step);
        }
        fleet
            .progresses(&format!("the clock is {step} s ahead"))
            .await;
        fleet.counts(3).await;
        let after = time(&fleet.nodes.0[set[0]]).await;
        let stepped = after - before - (step - std::mem::replace(&mut ahead, *step));
        assert!((0..60).contains(&stepped), "the clock did not step");
    }
    // A key that was created before a step back stays until the node's clock is there again.
    for clock in &clocks {
        clock.set(*seconds.iter().max().unwrap());
    }
    let outcome = fleet.finish().await;
    outcome.check_fences();
    println!("{} counts, {} refused", outcome.accepted, outcome.refused);
    let exclusive = dlock_harness::check_exclusive(&outcome.intervals);
    (outcome.refused, exclusive)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_nodes_clock_steps() {
    let (_, exclusive) = steps(&[0], &[3600, 0, -7200, 3600, YEAR, -YEAR], SHORT).await;
    println!("two at once: {exclusive:?}");
}

/// Back, no key ends early: nobody may be let in.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_nodes_clock_steps_back_and_nobody_is_let_in() {
    let (refused, exclusive) = steps(&[1], &[-10, -3600, -7200], SHORT).await;
    exclusive.unwrap();
    assert_eq!(refused, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clocks_of_a_quorum_step() {
    let (_, exclusive) = steps(&[0, 2], &[3600, 7200, 0, 3600], LONG).await;
    println!("two at once: {exclusive:?}");
}
