//! A pool without scripts: what it sends, what it refuses, and what holds beside pools with scripts.
//!
//! `wire`: what stands at the server, and foreign data there. `rights`: the Redis user. `memory`: a
//! server that is out of it. `between`: what happens during a transaction. `cuts`: connections that break, commands that come late, dropped
//! futures. `fleets`: many processes of both ways at one key, and killed ones. `renewals`: many
//! leases. What both ways promise alike is in `conformance`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod between;
mod cuts;
mod fleets;
mod memory;
mod renewals;
mod rights;
mod wire;

use std::time::Duration;

use dlock_runtime::{Config, LockError, LockGuard, LockPool, LockRequest, Wait};
use dlock_tests::patient;
use tokio::task::JoinHandle;

/// A cap for anything that has to happen at all, on a busy machine.
const CAP: Duration = Duration::from_secs(20);

/// A lease that no test waits out.
const LONG: Duration = Duration::from_secs(60);

/// Polls often, and leaves each turn to the server.
fn plain(url: impl Into<String>) -> Config {
    let config = patient(url).without_scripts();
    config
        .poll_interval(Duration::from_millis(20))
        .local_handoff(0, Duration::ZERO)
}

async fn connect(config: Config) -> LockPool {
    LockPool::connect(config).await.unwrap()
}

type Waiter = JoinHandle<Result<LockGuard, LockError>>;

fn wait_for(request: LockRequest) -> Waiter {
    tokio::spawn(request.wait(Wait::Forever).acquire())
}
