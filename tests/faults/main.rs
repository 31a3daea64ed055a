//! What a lock does when the wire, the server or its own process fails under it.
//!
//! - Ambiguity, an acquire or release with an unclear outcome: `unanswered` (rows that run on every
//!   server), `releases`, `outages`, `connecting`.
//! - Loss, a lease that ends under its holder: `loss`, `deadlines`, `causes`, `paused`, `finish`,
//!   `fence_order`.
//! - Renewal, a lease that must not end: `renewal`, `batches`, `extend`.
//! - Waiting, a turn that must come: `waiting_pushes`, `waiting_late`, `waiting_dead`,
//!   `waiting_connections`, `waiting_polls`, `waiting_full`, `waiting_background`,
//!   `waiting_min_hold`.
//! - Several keys: `several_keys`. What only the log says: `logged`.
//! - Guarded writes, which must not come late: `writes`.
//! - Every kind of lock: `kinds_wire` (ambiguity and waiting), `kinds_lost` (renewal and loss),
//!   `kinds` (bugs of other systems, by number).
//! - `lab` is the server and the wire, `outage` what happens to them, `body` what runs under a lock here, `observer` a thread that
//!   watches, `waiters` the waiters.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

mod batches;
mod body;
mod causes;
mod connecting;
mod deadlines;
mod extend;
mod fence_order;
mod finish;
mod kinds;
mod kinds_lost;
mod kinds_wire;
mod lab;
mod logged;
mod loss;
mod observer;
mod outage;
mod outages;
mod paused;
mod releases;
mod renewal;
mod several_keys;
mod unanswered;
mod waiters;
mod waiting_background;
mod waiting_connections;
mod waiting_dead;
mod waiting_full;
mod waiting_late;
mod waiting_min_hold;
mod waiting_polls;
mod waiting_pushes;
mod writes;
