//! The machines, each by itself: tables for what is promised at a boundary, random sequences for
//! what always holds.

mod clock_watch;
mod commands;
pub(crate) mod explore;
mod lock_order;
pub(crate) mod print;
mod queue;
mod quorum;
mod server;
mod server_check;
mod server_clock;
mod slot_map;
mod slot_move;
mod votes;
mod writes;

use std::time::Duration;

use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

pub(crate) fn ttl(millis: u64) -> Ttl {
    Ttl::new(ms(millis)).unwrap()
}
