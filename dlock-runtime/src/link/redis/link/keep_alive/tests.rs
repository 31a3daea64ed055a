//! Tests of the keep-alive timer on tokio's paused clock: it runs while commands are sent, stops
//! after the last one, and ends with its connection.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::{IDLE, KeepAlive, PERIOD, USED};

/// The paused clock jumps to the next timer: the keep-alive's if it runs, otherwise the test's own.
#[tokio::test(start_paused = true)]
async fn it_beats_while_commands_go_out_and_rests_after_the_last() {
    let keep_alive = KeepAlive::new();
    let state = || keep_alive.timer.state.load(Ordering::Relaxed);
    for _ in 0..10 {
        keep_alive.command_sent();
        assert_eq!(state(), USED);
        sleep(PERIOD / 2).await;
        assert_ne!(state(), IDLE);
    }
    sleep(PERIOD * 2).await;
    assert_eq!(state(), IDLE);
    keep_alive.command_sent();
    assert_eq!(state(), USED, "and begins again");
    sleep(PERIOD * 3).await;
    assert_eq!(state(), IDLE);
}

#[tokio::test(start_paused = true)]
async fn it_ends_with_its_connection() {
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let keep_alive = KeepAlive::new();
    keep_alive.command_sent();
    sleep(PERIOD).await;
    assert_eq!(tasks(), 1);
    keep_alive.end();
    let begun = Instant::now();
    while tasks() > 0 {
        sleep(Duration::from_millis(1)).await;
        assert!(begun.elapsed() < PERIOD, "at once");
    }
}
