//! Children that print, are stopped, killed and dropped.

use std::path::Path;
use std::time::Duration;

use super::Child;
use crate::wait::until_blocking;

const CAP: Duration = Duration::from_secs(10);
const NO_ENVS: [(&str, &str); 0] = [];

fn shell(script: &str) -> Child {
    Child::spawn("/bin/sh", ["-c", script], NO_ENVS)
}

#[tokio::test]
async fn lines_come_in_order() {
    let script = "echo one; echo two; printf 'grant 7\\nlast'";
    let mut child = shell(script);
    assert_eq!(child.line(CAP).await, "one");
    assert_eq!(child.expect_line("grant ", CAP).await, "7");
    assert_eq!(child.line(CAP).await, "last");
    assert!(child.wait(CAP).await.success());
    assert_eq!(child.lines(), ["one", "two", "grant 7", "last"]);
}

#[tokio::test]
#[should_panic(expected = "the input ended without line that starts with \"never\"")]
async fn the_end_of_the_output_is_told() {
    let mut child = shell("echo one");
    child.expect_line("never", CAP).await;
}

#[tokio::test]
#[should_panic(expected = "no another line within")]
async fn silence_is_told() {
    let mut child = shell("exec sleep 60");
    child.line(Duration::from_millis(20)).await;
}

#[tokio::test]
async fn arguments_and_variables_arrive() {
    let mut child = Child::spawn(
        "/bin/sh",
        ["-c", "echo $COLOUR; exit 3"],
        [("COLOUR", "blue")],
    );
    assert_eq!(child.line(CAP).await, "blue");
    assert_eq!(child.wait(CAP).await.code(), Some(3));
}

#[tokio::test]
async fn a_stopped_child_says_nothing() {
    let mut child = shell("while :; do echo tick; sleep 0.01; done");
    child.line(CAP).await;
    child.stop();
    // What it printed before may still be on its way: the pipe is empty when the count does not
    // grow during a pause ten times as long as the child's. A child that was not stopped can't pass
    // by lucky timing alone, unless it is that slow itself.
    let mut before = usize::MAX;
    until_blocking("the child is silent", CAP, || {
        let now = child.lines().len();
        std::thread::sleep(Duration::from_millis(100));
        now == std::mem::replace(&mut before, now)
    });
    child.cont();
    let lines = child.lines().len();
    until_blocking("the child goes on", CAP, || child.lines().len() > lines);
}

#[test]
fn a_dropped_child_is_killed_and_reaped() {
    let child = shell("exec sleep 60");
    let proc = format!("/proc/{}", child.pid());
    assert!(Path::new(&proc).exists());
    child.stop();
    drop(child);
    assert!(!Path::new(&proc).exists());
}

#[tokio::test]
async fn a_killed_child_may_be_killed_again() {
    let mut child = shell("exec sleep 60");
    child.kill();
    child.kill();
    assert_eq!(child.wait(CAP).await.code(), None);
}
