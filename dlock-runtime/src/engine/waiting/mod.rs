//! Taking a lock in turn, also one that is free: the tasks and futures around the local queues.
//! Each acquire with a `wait` goes through here.
//!
//! `waiter` is one waiter, who only looks and is woken; `leader` is a task that sends what a queue
//! asks for, so that a waiter which is not polled, or goes away, stops nobody; `first_acquire` is
//! the first acquire, which whoever is first sends itself.
//!
//! Never in this folder: who is next (`policy::queue`, behind `local_queues`).

mod first_acquire;
mod leader;
mod waiter;

pub(super) use self::waiter::Waiter;
