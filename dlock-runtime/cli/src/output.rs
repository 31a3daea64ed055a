//! What the command prints: on standard output its results, on standard error what a person should
//! know besides.
//!
//! Invariants: a write that fails is an error or a quiet end, never a panic; no message has invisible
//! characters of an argument.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::json;

use crate::status::Failure;
use crate::table::visible;

/// Messages on standard error. Nobody may read them, so a failure to write them changes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notices {
    pub(crate) json: bool,
}

impl Notices {
    /// Says what happened; `event` is the word for programs.
    pub(crate) fn say(self, event: &str, message: &str) {
        let message = visible_lines(message);
        let line = if self.json {
            format!("{}\n", json!({"event": event, "message": message}))
        } else {
            format!("dlock: {message}\n")
        };
        let _ = io::stderr().write_all(line.as_bytes());
    }

    /// Says why the command failed, if there is anybody to tell.
    pub(crate) fn fail(self, failure: &Failure) {
        let Some(message) = failure.message.as_deref().map(visible_lines) else {
            return;
        };
        let line = if self.json {
            let error =
                json!({"error": failure.kind, "message": message, "status": failure.status});
            format!("{error}\n")
        } else {
            format!("dlock: {message}\n")
        };
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// The message as it may be printed: it may repeat arguments, and a script's arguments may come from
/// anywhere.
fn visible_lines(message: &str) -> String {
    let lines: Vec<_> = message.split('\n').map(visible).collect();
    lines.join("\n")
}

/// Prints a result as a whole.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Whether standard output may have colours.
pub(crate) fn has_colours() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdout().is_terminal() && !refused && !is_dumb
}
