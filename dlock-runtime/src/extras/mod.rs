//! What stands beside a lock, each a room of its own: `lock_order` (which locks are
//! taken inside which), `server_check` (what a server's settings risk), `writes` (the user's own
//! writes, checked), `http_response` (an error as axum sends it), `admin` (the locks of every process,
//! looked at and evicted), `leading` (one leader among many processes) and `migrate` (the tables of
//! `postgres://`).
//!
//! `leading` calls `admin`, and both call `driver`; the others are called. Never in this folder: a decision about a lock.

pub(crate) mod admin;
#[cfg(feature = "axum")]
mod http_response;
pub(crate) mod leading;
pub(crate) mod lock_order;
#[cfg(feature = "postgres")]
mod migrate;
pub(crate) mod server_check;
pub(crate) mod writes;

#[cfg(test)]
mod tests;
