//! The values: what a lock is called, who holds it, for how long, and what can go wrong. Plain
//! data, checked once when it is made.
//!
//! Read in this order: `shared_text`, `key`, `kind`, `token`, `about`, `entry`, `holder`, `fence`,
//! `moment`, `ttl`, `bounds`, `record`, `wait`, `release`, `handoff`, `lock_order`, `class`, `shown`,
//! `error`, `finding`, `report`, `listener`, `config`, `process`, `hashed`; for writes under a lock `batch`,
//! `memory_value`, `slot`.
//!
//! Never in this folder: waiting, reading a clock, a command to a server, an import from another
//! folder.

pub(crate) mod about;
pub(crate) mod batch;
pub(crate) mod bounds;
pub(crate) mod class;
pub(crate) mod config;
pub(crate) mod entry;
pub(crate) mod error;
pub(crate) mod fence;
pub(crate) mod finding;
pub(crate) mod handoff;
pub(crate) mod hashed;
pub(crate) mod holder;
pub(crate) mod key;
pub(crate) mod kind;
pub(crate) mod listener;
pub(crate) mod lock_order;
pub(crate) mod memory_value;
pub(crate) mod moment;
pub(crate) mod node_status;
pub(crate) mod nodes;
pub(crate) mod process;
pub(crate) mod record;
pub(crate) mod release;
pub(crate) mod report;
pub(crate) mod shared_text;
pub(crate) mod shown;
pub(crate) mod slot;
pub(crate) mod token;
pub(crate) mod ttl;
pub(crate) mod wait;

#[cfg(test)]
mod tests;
