//! What a team sees of its locks: spans and events, a listener, metrics, the status of a pool.
//!
//! `record` keeps what the process logs; a test finds its own lines by its keys.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod listener;
mod metrics;
mod record;
mod slow;
mod spans;
mod status;

use std::time::Duration;

/// A cap for anything that has to happen at all, on a busy machine.
const CAP: Duration = Duration::from_secs(60);

/// How often a lease is renewed whose renewals are looked at; it lasts for [`CAP`], so that a busy
/// machine does not lose it meanwhile.
const OFTEN: Duration = Duration::from_millis(200);
