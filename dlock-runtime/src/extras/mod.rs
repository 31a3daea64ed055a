//! What stands beside a lock, each a room of its own: `lock_order` (which locks are
//! taken inside which), `server_check` (what a server's settings risk), `writes` (the user's own
//! writes, checked), `http_response` (an error as axum sends it), `admin` (the locks of every process,
//! looked at and evicted) and `leading` (one leader among many processes).
//!
//! `leading` calls `admin`, and both call `driver`; the others are called. Never in this folder: a decision about a lock.

pub(crate) mod admin;
#[cfg(feature = "axum")]
mod http_response;
pub(crate) mod leading;
pub(crate) mod lock_order;
pub(crate) mod server_check;
pub(crate) mod writes;

#[cfg(test)]
mod tests;
