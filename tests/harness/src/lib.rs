//! The building blocks of a fault test: private servers, wires that can be cut, processes that can
//! be stopped, and checks.
//!
//! Read in this order:
//!
//! * [`wait`]: wait for a condition under a hard cap; nothing here ever sleeps and hopes.
//! * [`server`]: a private `redis-server`, and a recorder of what reached it.
//! * [`postgres`]: a private cluster of PostgreSQL, and `PgBouncer` before it.
//! * [`certificates`]: an authority for a server with TLS.
//! * [`clock`]: servers whose clocks are set.
//! * [`sharded`]: a server that refuses commands with keys of several hash slots.
//! * [`cluster`]: nodes of which each serves some hash slots, and slots that move.
//! * [`wires`]: a node of a cluster that the others do not hear.
//! * [`watched`]: a master with replicas and sentinels.
//! * [`fake`]: a server that says what a test wants.
//! * [`proxy`]: a wire that can go silent, lose one direction, or be cut inside the nth matching
//!   request; [`resp`] finds the frames.
//! * [`child`]: a process that prints lines, and can be stopped, continued and killed.
//! * [`polls`]: a future that is dropped at each of its polls.
//! * [`history`]: which holder had which key from when to when, and whether two ever did at once.
//!
//! It knows nothing of dlock itself, so that a bug of dlock cannot hide in its own test tool. It
//! fails by panicking, with the reason.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test tool reports by panicking: every function here may"
)]

pub mod certificates;
pub mod child;
pub mod clock;
pub mod cluster;
pub mod fake;
pub mod history;
mod lines;
mod orphan;
pub mod polls;
pub mod postgres;
pub mod proxy;
pub mod resp;
pub mod server;
pub mod sharded;
mod signal;
pub mod wait;
pub mod watched;
pub mod wires;

pub use certificates::{Authority, Identity};
pub use child::Child;
pub use clock::{Clock, Clocks};
pub use cluster::Cluster;
pub use fake::{Fake, Says};
pub use history::{Interval, check_exclusive, now_ns};
pub use postgres::{PgBouncer, PostgresServer};
pub use proxy::{Action, DelayProxy, Matcher, Proxy, Trigger};
pub use server::{Monitor, RedisServer};
pub use sharded::Sharded;
pub use wait::{until, until_blocking, until_ok};
pub use watched::{MASTER, Watched};
pub use wires::Wires;

/// Whether all cases run, as in `tests/run.sh --rest`.
#[must_use]
pub fn all_cases() -> bool {
    std::env::var_os("DLOCK_TEST_ALL_CASES").is_some()
}

/// How many cases of a long property test run: a third, the same each time, or all.
#[must_use]
pub fn cases(all: u32) -> u32 {
    if all_cases() { all } else { all / 3 }
}
