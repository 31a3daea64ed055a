//! Several tokio runtimes and one pool: runtimes that share it, block, end, are missing, or have no
//! timers or I/O.
//!
//! `visitors` is what a short-lived runtime does and leaves in flight; `global` (parallel
//! `#[tokio::test]`s) and `short_lived` (threads) let many of them end. `actix` blocks one runtime
//! of several. `ended` ends one in the middle of a poll, `outside` has none at all, `incomplete` has
//! one without timers or I/O. `waiting` is a queue over several runtimes, one of which runs the
//! leader, and `unpolled` one with waiters that are no longer polled. `watchdog` counts the pool's
//! own threads. `wakers` drops wakers that own a guard. `forked` is a child process with its
//! parent's pool.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod actix;
mod block_on;
mod ended;
#[cfg(unix)]
mod forked;
mod global;
mod incomplete;
mod outside;
mod short_lived;
mod unpolled;
mod visitors;
mod waiting;
mod wakers;
mod watchdog;

use std::time::Duration;

use dlock_harness::{Child, RedisServer};
use dlock_runtime::{Config, LockPool};
use tokio::runtime::{Builder, Runtime};

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn multi_thread() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// A process in a mode of `tests/worker`.
fn worker(words: &[&str]) -> Child {
    const NO_ENVS: [(&str, &str); 0] = [];
    Child::spawn(env!("CARGO_BIN_EXE_worker"), words, NO_ENVS)
}

/// A pool whose server knows the scripts, so that each operation from now on is one request.
async fn warm_pool(config: impl Into<Config>) -> LockPool {
    let pool = LockPool::connect(config).await.unwrap();
    let guard = pool.lock("warm").acquire().await.unwrap();
    guard.extend(Duration::from_secs(40)).await.unwrap();
    guard.release().await.unwrap();
    pool
}

/// All connections but the one that asks.
async fn clients(server: &RedisServer) -> Vec<String> {
    let list: String = server.ask(&["CLIENT", "LIST"]).await;
    let others = list
        .lines()
        .filter(|line| !line.contains(" cmd=client|list "));
    others.map(str::to_owned).collect()
}
