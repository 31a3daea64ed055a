//! The I/O around the state machines: it sends what `policy` decides, and wakes, renews and cleans
//! up.
//!
//! Read `pool` (the handle), `core` (what all handles of a pool share), `request` (the builder) and
//! `spec` (a request once it is checked). Then `acquire` (one lock), `nested` (a lock that the
//! enclosing scope already holds), `acquire_all` (several locks, all or none), `attempt` (one
//! acquire command on its way), `shared` (the client's state under its one mutex), `local_queues`
//! (the waiters of this process) and `waiting` (the tasks around them). Then `guard` (a lock that
//! is held), `locked_future` (a body that runs under a lock) and `watchdog` (renewal, deadlines,
//! clean-up). `lease_cell` is what guard and watchdog share. `scope` holds the locks and the pool
//! around the current poll, `lock_order` checks the order of nested locks, `lock_handle` reads a
//! held lock without owning it, `call` tells observers how an acquire ended, `status` counts what a
//! pool holds and waits for, `admin` looks at the locks of every process, and `shutdown` ends a pool.
//!
//! Imports go one way: `pool` → `request` → `acquire` → `waiting` and `guard` → `core` →
//! `local_queues` and `watchdog` → `shared`.
//!
//! Never in this folder: who is next, how long a lease counts, or what becomes of a token (`policy`
//! decides); a name of the `redis` crate; sending, awaiting, waking or logging under the mutex. One
//! exception to the first: `lease_cell` itself finds that a deadline has passed, so a lease ends on
//! time even while the watchdog is late.

pub(crate) mod acquire;
mod acquire_all;
pub(crate) mod admin;
mod attempt;
mod call;
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
pub(crate) mod status;
mod waiting;
pub(crate) mod watchdog;

#[cfg(test)]
mod tests;
