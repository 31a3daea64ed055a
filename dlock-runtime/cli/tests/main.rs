//! The command `dlock` as a user meets it: processes, signals, terminals, pipes and exit statuses,
//! each test with a server of its own.
//!
//! `lab` starts servers and commands; `run`, `lost` and `once_per` are about `dlock run`, `lead` about `dlock lead`,
//! `look` about the commands that look, `migrate` about PostgreSQL, `terminal` about what needs a terminal, `words` about what is said of mistakes,
//! `settings` about the environment, and `page` about what the page says; `pictures` draws those of
//! the page, by `drawing`, from a `scene`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests report by panicking"
)]

mod drawing;
mod lab;
mod lead;
mod look;
mod lost;
#[cfg(feature = "postgres")]
mod migrate;
mod once_per;
mod page;
mod pictures;
mod run;
mod scene;
mod secret;
mod settings;
mod terminal;
mod words;
