//! What the server and other programs see: counted commands, stored values, foreign holders, and
//! the connections.
//!
//! `record` reads a server's MONITOR. `budget` counts the commands of an uncontended lock,
//! `combining` those of many locks at the same time, `heartbeats` those of many waiters, `renewals`
//! those of the watchdog, `queue` those of waiting. `places` reads the queue's keys, `layout` the
//! value at a lock's key. `interop` is a program that does not use dlock, `foreign_waits` the same
//! beside a queue. `rights` takes each right from a `user` with only the documented
//! ones, and `rights_to_write` those of guarded writes; `check` provokes each finding of
//! `LockPool::check`. `sharded` is a server that refuses commands with keys of several hash slots.
//! `connection` tests the sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod budget;
mod check;
mod combining;
mod connection;
mod credentials;
mod encrypted;
mod foreign_waits;
mod heartbeats;
mod interop;
mod layout;
mod places;
mod queue;
mod record;
mod renewals;
mod rights;
mod rights_to_write;
mod sharded;
mod user;

use dlock_runtime::LockPool;
use dlock_tests::patient;

async fn connect(url: impl Into<String>) -> LockPool {
    LockPool::connect(patient(url)).await.unwrap()
}
