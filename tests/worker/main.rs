//! A process that takes locks, for tests that need several processes, or one that they can kill.
//!
//! `worker <mode> <url> [name=value …]`; each mode is a file. It prints lines that begin with a
//! word to wait for, and ends with an error if anything fails. It does not check what a lock
//! promises; the test that started it does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test program reports by panicking"
)]

mod counter;
mod forked;
mod holder;
mod kinds;
mod leader;
mod once_per;
mod quorum;
mod settings;
mod waiters;
mod watchdogs;

use settings::Settings;

fn main() {
    let settings = Settings::of_arguments();
    match settings.mode.as_str() {
        "count" => counter::locked(&settings),
        "count-unlocked" => counter::unlocked(&settings),
        "fork" => forked::beside_a_runtime(&settings),
        "fork-busy" => forked::while_others_lock(&settings),
        "fork-under-way" => forked::while_a_command_is_under_way(&settings),
        "fork-inside" => forked::inside_a_runtime(&settings, dlock_fork::fork),
        #[cfg(target_os = "linux")]
        "fork-unsubscribed" => forked::inside_a_runtime(&settings, dlock_fork::fork_unsubscribed),
        "watchdogs" => watchdogs::come_and_go(&settings),
        "no-watchdogs" => watchdogs::memory_has_none(&settings),
        "hold" => holder::hold(&settings),
        "kinds" => kinds::take_turns(&settings),
        "ask" => kinds::ask(&settings),
        "both" => kinds::both(&settings),
        "quorum" => quorum::count(&settings),
        "lead" => leader::lead(&settings),
        "once_per" => once_per::fire(&settings),
        "line" => waiters::wait(&settings),
        "shutdown-anywhere" => watchdogs::shut_down_anywhere(&settings),
        other => panic!("no mode {other:?}"),
    }
}
