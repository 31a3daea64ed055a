//! Tests the pages in `docs/operate`: runs their shell blocks on a private server, and compares
//! their lists with the code.
//!
//! `page` finds a section and runs a block; `shell` sets up the situations that the blocks are for,
//! `lists` compares, `sizes` measures, `settings` tries the server settings that a page recommends
//! or warns of; `kinds` runs the blocks of the pages on kinds in `docs/kinds`. The rights have a
//! test of their own, `wire/rights`. `admin` tests what `LockPool::admin` shows and ends.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod admin;
mod kinds;
mod lists;
mod page;
mod settings;
mod shell;
mod sizes;

use dlock_harness::RedisServer;
use dlock_runtime::LockPool;
use dlock_tests::patient;

async fn pool(server: &RedisServer) -> LockPool {
    LockPool::connect(patient(server.url())).await.unwrap()
}
