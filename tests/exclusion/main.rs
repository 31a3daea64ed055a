//! Exclusion: a counter that is read, slept over and written loses nothing, across processes, threads and tasks.
//!
//! `fleet` starts the processes and judges what they print; `processes` is the real thing and the proof that the check bites; `killed` has
//! a holder that dies; `threads` is `memory://` inside this process. `line` starts processes that wait in line; `turns` is how often and
//! in which order they get the lock, `deaths` what becomes of that when some are killed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, also where clippy does not see it"
)]

mod deaths;
mod fair;
mod fleet;
mod heads;
mod holders;
mod killed;
mod kinds;
mod line;
mod processes;
mod seats;
mod threads;
mod together;
mod turns;
