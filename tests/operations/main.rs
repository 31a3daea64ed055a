//! The pages in `docs/operate`, tried: their shell blocks on a private server, their lists against the code that they list.
//!
//! `page` finds a section and runs a block; `shell` plays the scenes that the blocks are for, `lists` compares, `sizes`
//! measures, `settings` sets what a page recommends or warns of; `kinds` does the same for the kinds of locks in `docs/guide`.
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
