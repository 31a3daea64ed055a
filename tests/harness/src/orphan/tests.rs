//! The watcher kills its child when the pipe ends, and spares it when it is dropped.

use std::process::{Child, Command};
use std::time::Duration;

use super::Orphan;
use crate::signal::kill_and_reap;
use crate::wait::until_blocking;

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().unwrap()
}

#[test]
fn the_end_of_the_pipe_kills_the_child() {
    let mut child = sleeper();
    let mut orphan = Orphan::guard(child.id()).unwrap();
    // The kernel does the same to the pipe of a test process that is killed.
    drop(orphan.0.stdin.take());
    until_blocking("the child is killed", Duration::from_secs(10), || {
        child.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_dropped_watcher_spares_the_child() {
    let mut child = sleeper();
    drop(Orphan::guard(child.id()).unwrap());
    assert!(child.try_wait().unwrap().is_none());
    kill_and_reap(&mut child);
}
