//! What a program calls: the pool and its requests, and what stands beside a lock.
//!
//! Read `pool` (the handle) and `request` (the builder). `call` tells observers how an acquire
//! ended, `status` counts what a pool holds and waits for, `admin` looks at the locks of every
//! process, and `shutdown` ends a pool. All of it goes to `driver`.
//!
//! Never in this folder: a name of the `redis` crate. Belongs elsewhere: how a lock is taken, held
//! and released (→ `driver`), and what is decided about it (→ `client`).

pub(crate) mod admin;
mod call;
pub(crate) mod pool;
pub(crate) mod request;
pub(crate) mod shutdown;
pub(crate) mod status;
