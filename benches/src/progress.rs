//! The line on stderr that says what is being done: written over in a terminal, one of each kind elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// How often the line is written again.
const PACE: Duration = Duration::from_millis(200);

/// To the begin of the line, and nothing on it.
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
            // What can't be told is no reason to stop.
            let _ = write!(stderr, "{OVER}{}: {step}", self.what).and_then(|()| stderr.flush());
        }
    }
}

/// Takes the line away.
pub(crate) fn clear() {
    let mut stderr = std::io::stderr().lock();
    if stderr.is_terminal() {
        let _ = write!(stderr, "{OVER}").and_then(|()| stderr.flush());
    }
}
