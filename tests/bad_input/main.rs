//! Whatever can be configured or left on a server wrongly: a typed error that says what to do, in time, and no body is run.
//!
//! * `lab`: one attempt and all that every failure has in common.
//! * By where the fault is: `addresses`, `handshake` (what answers there), `requests` (what is asked for), `keys` (what stands at the
//!   key; `planted`: to be printed), `servers` (what state the server is in), `clocks`. `fake` is a server that says whatever a test wants.
//! * `secrets`: no password and no token in any text; `texts` collects them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

mod addresses;
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
