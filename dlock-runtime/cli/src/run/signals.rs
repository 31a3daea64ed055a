//! Signals that this process receives.
//!
//! Invariant: a signal that was ignored when the program started (`nohup`, a shell's background
//! job) stays ignored, here and in the command.

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// What is passed on to the command.
pub(crate) const FORWARDED: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// What would stop the watcher, which has to end the command in time.
pub(crate) const STOPPING: [Signal; 3] = [Signal::TSTP, Signal::TTIN, Signal::TTOU];

/// Receives these signals, except those that this process ignores. They no longer end or stop it.
pub(crate) fn receive(
    wanted: impl IntoIterator<Item = Signal>,
) -> std::io::Result<mpsc::UnboundedReceiver<Signal>> {
    let ignored = ignored();
    let (sender, receiver) = mpsc::unbounded_channel();
    for wanted in wanted {
        if ignored & (1 << (wanted.as_raw() - 1)) != 0 {
            continue;
        }
        let mut signals = signal(SignalKind::from_raw(wanted.as_raw()))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() && sender.send(wanted).is_ok() {}
        });
    }
    Ok(receiver)
}

/// The signals that this process ignores, a bit for each.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default(); // Linux only
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
