//! The I/O around the state machines.
//!
//! Read `pool` (the handle), `core` (what all handles share) and `request` (what is asked; checked,
//! it is an `spec`), then `acquire` (one lock), `nested` (one that the scope holds already),
//! `several` (all or none), `attempt` (one command that acquires), `shared` (the client's state
//! under its one lock), `local_queues` (those who wait here) and `waiting` (the tasks around them),
//! `guard` (a lock that is held), `guarded` (a body that runs while it is held) and `watchdog`
//! (renewal, deadlines, clean-up). `lease_cell` is what guard and watchdog share; `scope` is what a
//! body's poll finds around it, `lock_order` what is made of that; `shutdown` ends it all.
//!
//! Imports go one way: `pool` over `request` over `acquire` over `waiting` and `guard` over `core`
//! over `local_queues` and `watchdog` over `shared`.
//!
//! Never in this folder: who is next, how long a lease counts, what becomes of a token (`policy`
//! decides); a name of the `redis` crate; anything sent, awaited, woken or told under the mutex.
//! One exception to the first: `lease_cell` itself finds that a deadline has passed, so that a
//! lease is over then also while the watchdog is late.

pub(crate) mod acquire;
mod acquire_all;
mod attempt;
pub(crate) mod core;
pub(crate) mod guard;
pub(crate) mod lease_cell;
mod local_queues;
pub(crate) mod lock_handle;
mod lock_order;
pub(crate) mod locked_future;
mod nested;
pub(crate) mod pool;
pub(crate) mod request;
pub(crate) mod scope;
mod shared;
pub(crate) mod shutdown;
pub(crate) mod spec;
mod waiting;
pub(crate) mod watchdog;

#[cfg(test)]
mod tests;
