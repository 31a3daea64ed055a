//! What the wire and other programs see: commands counted, values read, foreign holders, and the connections themselves.
//!
//! `record` reads a server's MONITOR. `budget` counts the commands of a lock that nobody wants besides, `combining` those of many at once, `heartbeats` those of many who wait, `renewals` those of the watchdog,
//! `queue` those of waiting; `places` reads the queue as it stands on the server, `layout` the value at a key. `interop` plays a program
//! that does not use dlock, `foreign_waits` the same beside a queue. `rights` has a `user` who may do only what is documented, and does `everything`;
//! `connection` looks at the sockets.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod budget;
mod combining;
mod connection;
mod everything;
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
mod user;

use dlock_runtime::LockPool;
use dlock_tests::patient;

async fn connect(url: impl Into<String>) -> LockPool {
    LockPool::connect(patient(url)).await.unwrap()
}
