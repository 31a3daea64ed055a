//! The protocol as pure state machines: events in, actions out, so that production, the property
//! tests, the explorer and the simulator run the same code.
//!
//! Read `commands` (what a client sends to a server) and `server` (what it answers) first, then
//! `queue` (the times of the server's queue), `server_clock` (an estimate of the server's time),
//! `clock_watch` (whether its clock keeps pace) and `lock_order` (which locks are taken inside
//! which). `quorum` (one lock at several servers) uses `server`. `slot_map` (who serves which slot
//! of a cluster), `server_check` (what a server's settings risk), `votes` (what a majority of
//! servers says), `writes` (the user's own writes, checked) and `data` (where they go in memory)
//! stand alone. What a process does with the answers is the room above: `client`.
//! `docs/inside/protocol.md` draws the states.
//!
//! Never in this folder: `await`, reading a clock, I/O, a mutex, or a callback that does any of it.

pub(crate) mod clock_watch;
pub(crate) mod commands;
pub(crate) mod data;
pub(crate) mod lock_order;
pub(crate) mod queue;
pub(crate) mod quorum;
pub(crate) mod server;
pub(crate) mod server_check;
pub(crate) mod server_clock;
pub(crate) mod slot_map;
pub(crate) mod votes;
pub(crate) mod writes;

#[cfg(test)]
pub(crate) mod tests;
