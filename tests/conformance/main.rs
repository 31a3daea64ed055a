//! One suite for every backend: what a user may rely on wherever the locks are kept.
//!
//! A case is an async function that is given a fresh pool; [`backends`] runs it on `memory://` in real time, on `memory://` under
//! tokio's paused clock, and on a Redis server of its own, where nothing may be left afterwards; there also with no lock handed on
//! inside the process, so that the server decides each turn. What has no second backend to compare
//! with is apart: `namespaces` and `fleets` (several pools on one server), `global` and `shutting_down` (the process's own pools; each
//! test in a process of its own); and so is `lock_order`, whose pools differ by a setting and are listened to (`log`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

/// Makes four tests of each case; of those behind `seconds:`, which last some, it makes none on memory in real time. Those behind
/// `by_the_server:` are about its queue, and run without local handoff only.
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
mod several;
mod several_edges;
mod shutting_down;
mod stalls;
mod waiting;
