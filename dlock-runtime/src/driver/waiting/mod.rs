//! Takes a lock in turn: the tasks and futures around the local queues. Every acquire with a `wait`
//! goes through here, also for a lock that is free.
//!
//! `waiter` is one waiting call: it only polls its queue and is woken. `leader` is the task that
//! sends what a queue asks for, so a waiter that is not polled or goes away delays nobody.
//! `first_acquire` is a queue's first acquire command, which the first waiter sends from its own
//! poll.
//!
//! Never in this folder: who is next, what an answer means (`client`).

mod first_acquire;
mod leader;
mod waiter;

use std::time::Duration;

pub(super) use self::first_acquire::FirstAcquire;
#[cfg(test)]
pub(super) use self::leader::Leader;
pub(super) use self::waiter::AcquireFuture;

/// How often a leader shows that it responds, and a waiter checks that, at least.
const CHECK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);
