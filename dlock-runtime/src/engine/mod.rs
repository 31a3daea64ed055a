//! The I/O around the state machines.
//!
//! Read `pool` (the handle) and `request` (what is asked), then `acquire` (one lock), `nested` (one that the
//! scope holds already), `several` (all or none), `waiting` (those who want a lock that somebody has), `guard` (a
//! lock that is held), `guarded` (a body that runs while it is held) and `guardian` (renewal, deadlines,
//! clean-up). `lease_cell` is what guard and guardian share; `scope` is what a body's poll finds around it,
//! `lock_order` what is made of that; `shutdown` ends it all.

pub(crate) mod acquire;
mod attempt;
pub(crate) mod guard;
pub(crate) mod guarded;
pub(crate) mod guardian;
pub(crate) mod held;
pub(crate) mod lease_cell;
mod lock_order;
mod nested;
pub(crate) mod pool;
pub(crate) mod request;
pub(crate) mod scope;
mod several;
pub(crate) mod shutdown;
pub(crate) mod waiting;

#[cfg(test)]
mod tests;
