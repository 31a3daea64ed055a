//! The machines, each by itself: tables for what is promised at a boundary, random sequences for
//! what always holds.

mod clock_watch;
mod commands;
mod explore;
mod lease;
mod lease_bounds;
mod local_queue;
mod local_queue_leader;
mod local_queue_storm;
mod lock_order;
mod print;
mod queue;
mod quorum;
mod retry;
mod server;
mod server_check;
mod server_clock;
mod slot_map;
mod slot_move;
mod token_bounds;
mod token_life;
mod token_storm;
mod token_wait;
mod votes;
mod writes;

use std::time::Duration;

use crate::policy::lease::Terms;
use crate::values::bounds::Bounds;
use crate::values::moment::Moment;
use crate::values::ttl::{Margin, Ttl};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn ttl(millis: u64) -> Ttl {
    Ttl::new(ms(millis)).unwrap()
}

/// In milliseconds.
fn terms(length: u64, renew: Option<u64>) -> Terms {
    Terms {
        ttl: ttl(length),
        renew: renew.map(ms),
        bounds: Bounds::default(),
        margin: Margin::DEFAULT,
    }
}
