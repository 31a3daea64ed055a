//! Dropped futures: at every poll, on every way out of a body, while a command is under way.
//!
//! Read these first: `dlock_harness::polls` (a future that is dropped after its kth poll), `world`
//! (the backends, and what must be back as it was) and `record` (what the server saw). By topic:
//! `every_poll` and `guards` (everything that can be dropped, wherever it can be); `waiting` (dropped
//! while another caller has the lock); `queue`, `on_the_wire` and `handed_on` (one of several waiters
//! goes; `waiters` records their order); `ways_out` (timeout, abort, panic, `?` …); `left_behind` (threads and the table of tokens, in a process of its own); `scopes` and `current`
//! (what surrounds a body); `kinds` (every kind of lock); `storm` (many tasks, and everything at
//! random); `paused` (virtual time).
//!
//! Every lease here is 30 s or more, and every key must be free within 3 s, so no key is freed by
//! expiry.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test reports by panicking"
)]

mod record;
#[macro_use]
mod world;

mod current;
mod every_poll;
mod guards;
mod handed_on;
mod kinds;
mod left_behind;
mod on_the_wire;
mod paused;
mod queue;
mod scopes;
mod storm;
mod waiters;
mod waiting;
mod ways_out;
