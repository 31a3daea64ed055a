//! A pool's own thread and connections end with its last handle. Counted in a process of its own,
//! because other tests here have pools too.

use std::time::Duration;

use dlock_harness::{RedisServer, until};

use crate::{clients, worker};

const CAP: Duration = Duration::from_secs(20);

#[tokio::test]
async fn the_last_handle_ends_the_watchdog_and_the_connections() {
    let server = RedisServer::start();
    let mut worker = worker(&["watchdogs", &server.url()]);
    for expected in ["0", "2", "2", "1", "0"] {
        assert_eq!(worker.expect_line("watchdogs ", CAP).await, expected);
    }
    worker.expect_line("dropped", CAP).await;
    until("its connections are closed", CAP, async || {
        clients(&server).await.is_empty()
    })
    .await;
    assert_eq!(server.keys().await, ["lock:@fence"]);
    // All of that while its runtime was still running.
    worker.kill();
}

#[tokio::test]
async fn pools_in_memory_have_no_watchdog_thread() {
    let mut worker = worker(&["no-watchdogs", "memory://"]);
    assert_eq!(worker.expect_line("watchdogs ", CAP).await, "0");
    assert!(worker.wait(CAP).await.success());
}

#[tokio::test]
async fn shutdown_panics_in_no_runtime() {
    let server = RedisServer::start();
    let mut worker = worker(&["shutdown-anywhere", &server.url()]);
    for _ in 0..2 {
        let drained = worker.expect_line("drained ", CAP).await;
        assert_eq!(drained, "Drained { held: 0, unconfirmed: 0 }");
    }
    assert!(worker.wait(CAP).await.success());
}
