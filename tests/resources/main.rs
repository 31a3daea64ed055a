//! Resources that check the fencing token, as `docs/how-to/fenced-*.md` show them, and SQL that needs
//! no lock, of `docs/choosing`: these tests run the pages' own SQL, Lua and code for S3.
//!
//! The story is the same everywhere: ann holds the lock and is paused past her lease, bob gets the
//! lock and writes, ann writes late. `page` takes the statements out of the pages; `story` plays the
//! two holders with real locks; `slow_store` makes writers interleave. Each check also runs in a
//! variant without its condition, which loses bob's write: this proves that the condition is what
//! refuses ann.

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
