//! The server's machine by itself: tables for what is promised at a boundary, random sequences for what
//! always holds; and the search and the walk of every explorer (`explore`).

mod commands;
pub(crate) mod explore;
mod once_per;
pub(crate) mod print;
mod queue;
pub(crate) mod server;
mod slot_move;

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
