//! Wrong configuration, and wrong values or states on a server: each gives a typed error that says
//! what to do, in time, and no body runs.
//!
//! - `lab`: one attempt, and what all failures have in common.
//! - By where the fault is: `addresses`, `handshake` (what answers there), `requests` (what is
//!   asked for), `keys` (what is stored at the key; `planted`: in order to be printed), `servers`
//!   (the server's state), `clocks`, `pushes`. `fake` is a server that says whatever a test wants.
//! - `secrets`: no password and no token in any text; `texts` collects the texts.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

mod addresses;
mod certificates;
mod clocks;
mod fake;
mod handshake;
mod keys;
mod lab;
mod planted;
mod pushes;
mod requests;
mod secrets;
mod servers;
mod texts;
