//! What the wire and other programs see: commands counted, values read, foreign holders, and the connections themselves.
//!
//! `record` reads a server's MONITOR. `budget` counts commands and `renewals` those of the watchdog; `interop` plays a program that does
//! not use dlock; `layout` reads the value at a key, `connection` the sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod budget;
mod connection;
mod foreign_waits;
mod interop;
mod layout;
mod places;
mod queue;
mod record;
mod renewals;
mod rights;

use dlock_runtime::LockPool;
use dlock_tests::patient;

async fn connect(url: impl Into<String>) -> LockPool {
    LockPool::connect(patient(url)).await.unwrap()
}
