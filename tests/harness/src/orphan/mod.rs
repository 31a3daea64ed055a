//! Kills a child when the test process dies without running destructors: by a SIGKILL, an abort, or
//! with a server in a `static`.
//!
//! A shell waits for the end of a pipe that only the test process holds open. `PR_SET_PDEATHSIG`
//! would not do: it fires when the *thread* that spawned the child ends, and every test is a
//! thread.

use std::io;
use std::process::{Child, Command, Stdio};

use crate::signal::kill_and_reap;

/// The watcher of one child. Drop it before the child is reaped, so that it can never kill another
/// process with the same pid.
#[derive(Debug)]
pub(crate) struct Orphan(Child);

impl Orphan {
    pub(crate) fn guard(pid: u32) -> io::Result<Self> {
        Command::new("sh")
            .args(["-c", r#"read -r _; kill -9 "$0""#, &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
    }
}

impl Drop for Orphan {
    fn drop(&mut self) {
        kill_and_reap(&mut self.0);
    }
}

#[cfg(test)]
mod tests;
