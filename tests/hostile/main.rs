//! Somebody who may read every key of dlock, hear every channel and publish, but not write: what a dashboard has, or a curious
//! colleague. Whatever is said by that user, nobody holds a lock that is not theirs, nobody loses one, nothing stands still and
//! nothing grows.
//!
//! * `eve`: what she sees; `forge`: what she makes of it, seeded (`DLOCK_TEST_SEED` repeats a run).
//! * `life`: tasks that want locks of all kinds, and a judge of who may hold beside whom; `beside`: a task that must not stand still.
//! * `storm`: all of them at once. `findings`: what once got through, each by itself. `cost`: what a message costs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod beside;
mod cost;
mod eve;
mod findings;
mod forge;
mod lab;
mod life;
mod storm;
