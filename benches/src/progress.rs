//! The progress line on stderr: overwritten in a terminal; elsewhere one line for each kind of
//! step.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How often the line is written again.
const PACE: Duration = Duration::from_millis(200);

/// Returns to the start of the line, and clears it.
const OVER: &str = "\r\x1b[K";

/// The steps of one kind, such as the rounds of W1.
pub(crate) struct Progress {
    what: String,
    told: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        let what = what.into();
        if !std::io::stderr().is_terminal() {
            eprintln!("{what} …");
        }
        Self { what, told: None }
    }

    pub(crate) fn tell(&mut self, step: &str) {
        let due = self.told.is_none_or(|told| told.elapsed() >= PACE);
        let mut stderr = std::io::stderr().lock();
        if due && stderr.is_terminal() {
            self.told = Some(Instant::now());
            // A line that can't be written is no reason to stop.
            let _ = write!(stderr, "{OVER}{}: {step}", self.what).and_then(|()| stderr.flush());
        }
    }
}

/// Removes the line.
pub(crate) fn clear() {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        let _ = write!(stderr, "{OVER}").and_then(|()| stderr.flush());
    }
}
