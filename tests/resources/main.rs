//! Resources that check the fencing token, as `docs/guide/which-lock.md` shows them: its SQL, its Lua and its code for S3 are what runs here.
//!
//! The story is the same everywhere: ann holds the lock and is paused past her lease, bob gets it and writes, ann writes late.
//! `page` takes the statements out of the page; `story` plays the two holders with real locks; `slow_store` lets writers meet. Beside each check stands the variant
//! without it, which loses bob's write: so that it is the check which refuses, and nothing else.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod page;
mod redis;
mod s3;
mod slow_store;
mod sql;
mod sql_fence;
mod story;
