//! More than one server: a master behind sentinels that is killed, stopped, cut off, demoted.
//!
//! `sentinel` is about finding the master; `failover` about locks while it moves, with a `resource`
//! that checks fences; `fences` about a new master that is behind, `replicas` about leases that
//! count only once replicas have them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod failover;
mod fences;
mod replicas;
mod resource;
mod sentinel;
