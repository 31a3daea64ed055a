//! Futures that are dropped: at every poll, on every way out of a body, while something is under way.
//!
//! Read `polls` (the future that is dropped after its kth poll), `world` (the backends, and what must be back where it was) and `record`
//! (what the server saw) first. Then, by topic: `every_poll` and `guards` (everything that can be dropped, wherever it can be), `in_flight`
//! and `waiting` (dropped while a command is under way, or somebody else has the lock), `queue`, `on_the_wire` and `handed_on` (one of
//! several goes, whose order `line` knows), `combined` (one of several in one command), `ways_out` (timeout, abort, panic, `?` …),
//! `left_behind` (threads and the table of tokens, in a process of its own), `scopes` and `current` (what a body finds around it),
//! `kinds` (every kind of lock), `storm` (many tasks, and all of it at random), `paused` (virtual time).
//!
//! Every lease here is 30 s and more, and every key must be free within 3 s: so it was never an expiry.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test reports by panicking"
)]

mod polls;
mod record;
#[macro_use]
mod world;

mod combined;
mod current;
mod every_poll;
mod guards;
mod handed_on;
mod in_flight;
mod kinds;
mod left_behind;
mod line;
mod on_the_wire;
mod paused;
mod queue;
mod scopes;
mod storm;
mod waiting;
mod ways_out;
