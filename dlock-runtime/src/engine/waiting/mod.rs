//! Taking a lock in turn, also one that is free: the tasks and futures around the local queues. Each acquire
//! with a `wait` goes through here.
//!
//! `ticket` is one waiter, who only looks and is woken; `driver` is a task that sends what a queue
//! asks for, so that a waiter which is not polled, or goes away, stops nobody; `first_ask` is the
//! first acquire, which whoever is first sends itself.
//!
//! Never in this folder: who is next (`policy::gate`, behind `local_queues`).

mod driver;
mod first_ask;
mod ticket;

pub(super) use self::ticket::Ticket;
