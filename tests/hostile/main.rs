//! The attacker Eve may read every key of dlock, receive every channel and publish, but not write:
//! the rights of a dashboard, or of a curious colleague. Whatever Eve publishes, no client believes
//! it holds a lock that it does not hold, none loses a lock, nothing hangs and no memory grows. The
//! locks are on one server, on three nodes of which a quorum decides, or spread over a cluster.
//!
//! * `eve`: what Eve sees; `forge`: the messages made from it, seeded (`DLOCK_TEST_SEED` repeats a
//!   run).
//! * `life`: tasks that take locks of all kinds, and a judge of which holds may overlap; `observer`:
//!   a task that must not hang.
//! * `storm`: all of them at once. `findings`: attacks that once succeeded. `cost`: what a message
//!   costs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod cost;
mod eve;
mod findings;
mod forge;
mod lab;
mod life;
mod observer;
mod storm;
