//! The shop over HTTP: the routes of the example, in this process and in one of its own.
//!
//! `lab` has the shop under test and a bank that answers when the test lets it, so that a test
//! knows which requests hold a lock, and keeps them there as long as it likes. No test sleeps: each
//! waits for a condition, under a time limit.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test reports by panicking"
)]

#[path = "../app.rs"]
mod app;
#[path = "../bank.rs"]
mod bank;
#[path = "../error.rs"]
mod error;
#[path = "../extract.rs"]
mod extract;
#[path = "../store.rs"]
mod store;

mod buying;
mod lab;
mod leaving;
mod log;
mod outage;
mod refusing;
mod stopping;
