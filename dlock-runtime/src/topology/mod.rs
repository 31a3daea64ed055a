//! Where a lock is: each topology chooses servers, keeps the connections to them, and wraps a link.
//!
//! `server` is one server, or a master that moves. `sentinel` asks who that is. `cluster` sends each key to the node that serves
//! its slot. `witness` has each grant confirmed by replicas. `quorum` is one lock at several
//! independent servers (the votes are counted in `client::quorum`). `plain` is a server without
//! scripts. `votes` is what a majority of Sentinels says. `postgres` is a database. `runtimes` keeps what
//! each tokio runtime has.
//!
//! Never in this folder: a rule of a lock (→ `rules`), how bytes come and go (→ `link`).

pub(crate) mod cluster;
pub(crate) mod plain;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
pub(crate) mod quorum;
pub(crate) mod runtimes;
pub(crate) mod sentinel;
pub(crate) mod server;
mod votes;
pub(crate) mod witness;

#[cfg(test)]
mod tests;
