//! One suite for every backend: what a user may rely on with any server.
//!
//! A case is an async function that gets a fresh pool. [`backends`] runs it on `memory://` in real
//! time, on `memory://` under tokio's paused clock, and on a Redis server of its own, where nothing
//! may be left afterwards; there also without local hand-off, so that the server decides each turn.
//! Tests without a second backend to compare with are separate: `namespaces` and `fleets` (several
//! pools on one server), `global` and `shutting_down` (the process's own pools; each test in a
//! process of its own), and `lock_order`, whose pools have another setting and whose events are
//! recorded (`log`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

/// Makes four tests of each case. Cases behind `seconds:` take some seconds, and do not run on
/// memory in real time. Cases behind `by_the_server:` are about the server's queue, and run only
/// without local hand-off.
macro_rules! on_every_backend {
    ($($case:ident),* $(,)? $(; seconds: $($long:ident),* $(,)?)? $(; by_the_server: $($turn:ident),* $(,)?)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $case() {
                crate::backends::on_memory(super::$case).await;
            })*
        }

        mod memory_paused {
            $(#[tokio::test(start_paused = true)]
            async fn $case() {
                crate::backends::on_memory(super::$case).await;
            })*
            $($(#[tokio::test(start_paused = true)]
            async fn $long() {
                crate::backends::on_memory(super::$long).await;
            })*)?
            $($(#[tokio::test(start_paused = true)]
            async fn $turn() {
                crate::backends::on_memory_by_the_server(super::$turn).await;
            })*)?
        }

        mod redis {
            $(#[tokio::test]
            async fn $case() {
                crate::backends::on_redis(super::$case).await;
            })*
            $($(#[tokio::test]
            async fn $long() {
                crate::backends::on_redis(super::$long).await;
            })*)?
        }

        mod redis_by_the_server {
            $(#[tokio::test]
            async fn $case() {
                crate::backends::on_redis_by_the_server(super::$case).await;
            })*
            $($(#[tokio::test]
            async fn $long() {
                crate::backends::on_redis_by_the_server(super::$long).await;
            })*)?
            $($(#[tokio::test]
            async fn $turn() {
                crate::backends::on_redis_by_the_server(super::$turn).await;
            })*)?
        }
    };
}

mod backends;
mod bounds;
mod bugs;
mod bugs_elsewhere;
mod data;
mod exclusion;
mod fences;
mod fleets;
mod global;
mod guarded_writes;
mod guards;
mod handed_on;
mod holds;
mod in_turn;
mod kinds;
mod lock_order;
mod log;
mod looking;
mod namespaces;
mod nested_edges;
mod owners;
mod permits;
mod queueing;
mod reading;
mod reentrant;
mod releases;
mod scopes;
mod several_edges;
mod several_keys;
mod shutting_down;
mod stalls;
mod waiting;
