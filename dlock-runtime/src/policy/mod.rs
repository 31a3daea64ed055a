//! The protocol as pure state machines: events in, actions out, so that production, the property
//! tests, the explorer and the simulator run the same code.
//!
//! Read `commands` (what a server is asked) and `server` (what it answers) first, then `lease` (one
//! lease, from its grant to its end), `tokens` (every token of this process, whatever became of it),
//! `queue` (who waits here for one key), `client` (a queue and its tokens, changed in one step),
//! `retry` (when to try again), `server_clock` (what time it is at the server), `clock_watch`
//! (whether its clock keeps pace) and `lock_order` (which locks are taken inside which); `writes` (a batch of the user's own writes,
//! checked) and `data` (where those go in memory) stand by themselves. The states are drawn in
//! `docs/inside/protocol.md`.
//!
//! Never in this folder: `await`, a clock that is read, I/O, a mutex, a callback that does any of it.

pub(crate) mod client;
pub(crate) mod clock_watch;
pub(crate) mod commands;
pub(crate) mod data;
pub(crate) mod lease;
pub(crate) mod local_queue;
pub(crate) mod lock_order;
pub(crate) mod queue;
pub(crate) mod retry;
pub(crate) mod server;
pub(crate) mod server_clock;
pub(crate) mod tokens;
pub(crate) mod writes;

#[cfg(test)]
mod tests;
