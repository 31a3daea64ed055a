//! `docs/operate/operations.md`, tried: its shell blocks on a private server, its lists against the code that they list.
//!
//! `page` takes the text apart and runs a block; `shell` plays the scenes that the blocks are for, `lists` compares, `sizes`
//! measures, `settings` sets what the page recommends or warns of; `kinds` does the same for the pages in `docs/kinds`.
//! The rights have a test of their own, `wire/rights.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod kinds;
mod lists;
mod page;
mod settings;
mod shell;
mod sizes;
