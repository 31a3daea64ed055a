//! The client's machines: tables for what is promised at a boundary, and the explorer, which drives
//! them against the server's machine: in every order of a few steps, and at random in long walks.

mod clock_watch;
mod compared;
mod explore;
mod lease;
mod lease_bounds;
mod local_queue;
mod local_queue_leader;
mod quorum;
mod retry;
mod server_clock;
mod token_bounds;
mod token_doubts;
mod token_events;
mod token_life;
mod token_wait;

use crate::client::lease::LeaseTerms;
use crate::rules::tests::{at, ms, ttl};
use crate::values::bounds::Bounds;
use crate::values::ttl::Margin;

/// In milliseconds.
fn terms(length: u64, renew: Option<u64>) -> LeaseTerms {
    LeaseTerms {
        ttl: ttl(length),
        renew: renew.map(ms),
        bounds: Bounds::default(),
        margin: Margin::DEFAULT,
    }
}
