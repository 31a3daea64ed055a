//! Exclusion: a counter that is read, slept over and written loses no update, across processes,
//! threads and tasks.
//!
//! `fleet` starts the processes and checks what they print. `processes` runs it, with a control run
//! without locks that must fail. `threads` tests `memory://` inside this process. `waiters` starts
//! processes that queue; `turns` tests how often and in which order they get the lock, `deaths` the
//! same when some are killed, `fair` the strict order.
//!
//! `leaders` changes the leader again and again. `once_per` storms at jobs that run once per period.
//! Both do so on each `ground`.
//!
//! `transfers` are transactions in PostgreSQL that check their locks.
//!
//! `kinds` is about the kinds with several holders, whose holds `dlock_tests::overlaps` checks. `item` is
//! a lab for one lock of any kind, used by `fair`, by `heads` (dead waiters at the head), by `holders`
//! (killed holders) and by `two_builds`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod deaths;
mod fair;
mod fleet;
mod ground;
mod heads;
mod holders;
mod item;
mod kinds;
mod leaders;
mod once_per;
mod processes;
mod threads;
mod transfers;
mod turns;
mod two_builds;
mod waiters;
