//! More than one server: a master behind sentinels that is killed, stopped, cut off, demoted.
//!
//! `sentinel` is about finding the master, `hostile` about `fake` sentinels, `rights` about users,
//! `encrypted` about TLS; `failover` and `runtimes` about locks while it moves, `soak` about many
//! failovers in a row, and `slow` about none; `fences` about a new master that is behind, `replicas`
//! about leases that count only once replicas have them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod encrypted;
mod failover;
mod fake;
mod fences;
mod hostile;
mod replicas;
mod rights;
mod runtimes;
mod sentinel;
mod slow;
mod soak;

use std::time::Duration;

/// A cap for anything that has to happen at all, on a busy machine.
const CAP: Duration = Duration::from_secs(60);
