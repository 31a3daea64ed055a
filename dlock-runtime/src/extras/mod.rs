//! What stands beside a lock, each a room of its own that knows no other: `lock_order` (which locks are
//! taken inside which), `server_check` (what a server's settings risk), `writes` (the user's own
//! writes, checked) and `admin` (the locks of every process, looked at and evicted).
//!
//! `admin` calls `driver`; the others are called. Never in this folder: a decision about a lock.

pub(crate) mod admin;
pub(crate) mod lock_order;
pub(crate) mod server_check;
pub(crate) mod writes;

#[cfg(test)]
mod tests;
