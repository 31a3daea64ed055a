//! What a program calls, and what carries out what `client` decides: it sends, awaits, wakes, renews
//! and cleans up.
//!
//! `pool` is the handle and `request` the builder; `call` tells observers how an acquire ended, `status`
//! counts what a pool holds and waits for, and `shutdown` ends a pool. Then read `core` (what all handles of a pool share) and `shared` (the machine under its one mutex).
//! Then `acquire` (one lock), `nested` (a lock that the enclosing scope already holds),
//! `acquire_all` (several locks, all or none), `attempt` (one acquire command on its way) and
//! `waiting` (a waiter's future and a leader's task). Then `guard`
//! (a lock that is held), `locked_future` (a body that runs under a lock) and `watchdog` (renewal,
//! deadlines, clean-up). `lease_cell` is what guard and watchdog share. `scope` holds the locks and
//! the pool around the current poll, `lock_order` checks the order of nested locks, and
//! `lock_handle` reads a held lock without owning it.
//!
//! Imports go one way: `acquire` → `waiting` and `guard` → `core` → `watchdog` → `shared`; only the
//! type of a first acquire, which the machine keeps for its waiter, goes back from `waiting`.
//!
//! Never in this folder: a name of the `redis` crate; sending, awaiting, waking or logging under the
//! mutex. Belongs elsewhere: who is next, how long a lease counts, or what becomes of a token
//! (→ `client`). One exception: `lease_cell` itself finds that a deadline has passed, so a lease
//! ends on time even while the watchdog is late.

pub(crate) mod acquire;
pub(crate) mod acquire_all;
mod attempt;
mod call;
pub(crate) mod core;
pub(crate) mod guard;
pub(crate) mod lease_cell;
pub(crate) mod lock_handle;
mod lock_order;
pub(crate) mod locked_future;
mod nested;
pub(crate) mod pool;
pub(crate) mod request;
pub(crate) mod scope;
mod shared;
pub(crate) mod shutdown;
pub(crate) mod status;
mod waiting;
pub(crate) mod watchdog;

#[cfg(test)]
mod tests;
