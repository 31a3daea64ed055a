//! A child process, for faults that a task cannot have: it is stopped or killed while it holds a
//! lock.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{self, Command, ExitStatus, Stdio};
use std::time::Duration;

use crate::lines::Lines;
use crate::orphan::Orphan;
use crate::signal;
use crate::wait::until;

/// A child process whose standard output is read line by line. Dropping it kills it.
///
/// Its standard error goes to the test's. `CARGO_BIN_EXE_<name>` gives the path of a binary of the
/// same package.
#[derive(Debug)]
#[must_use = "dropping it kills the process"]
pub struct Child {
    process: process::Child,
    orphan: Option<Orphan>,
    lines: Lines,
    /// The index of the line that [`line`](Self::line) gives next.
    next: usize,
}

impl Child {
    /// Starts `program` with these arguments, and these variables on top of the environment of the
    /// test.
    pub fn spawn<A: AsRef<OsStr>, K: AsRef<OsStr>, V: AsRef<OsStr>>(
        program: impl AsRef<Path>,
        args: impl IntoIterator<Item = A>,
        envs: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let program = program.as_ref();
        let mut process = Command::new(program)
            .args(args)
            .envs(envs)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let stdout = process.stdout.take().expect("stdout is piped");
        Self {
            lines: Lines::collect(stdout),
            orphan: Some(Orphan::guard(process.id()).expect("a watching shell")),
            process,
            next: 0,
        }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// The next line. Panics after the (scaled) cap, and at the end of the output.
    pub async fn line(&mut self, cap: Duration) -> String {
        self.find("another line", cap, |_| true).await
    }

    /// The next line that starts with `prefix`, without it; lines before it are skipped. Panics
    /// like [`line`](Self::line).
    pub async fn expect_line(&mut self, prefix: &str, cap: Duration) -> String {
        let what = format!("line that starts with {prefix:?}");
        let line = self.find(&what, cap, |line| line.starts_with(prefix)).await;
        line.strip_prefix(prefix).unwrap_or_default().to_owned()
    }

    /// All lines so far, whether read or not.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.lines.all()
    }

    /// SIGSTOP. Returns once the process has stopped.
    pub fn stop(&self) {
        signal::stop(self.pid());
    }

    /// Whether it has stopped, by whomever.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        signal::is_stopped(self.pid())
    }

    /// SIGCONT. Returns once the process goes on.
    pub fn cont(&self) {
        signal::cont(self.pid());
    }

    /// SIGKILL, and waits for the end. [`now_ns`](crate::now_ns) read afterwards is a safe end for
    /// the intervals that the child left open.
    pub fn kill(&mut self) {
        drop(self.orphan.take());
        signal::kill_and_reap(&mut self.process);
    }

    /// How the process ended by itself. Panics after the (scaled) cap.
    pub async fn wait(&mut self, cap: Duration) -> ExitStatus {
        let mut status = None;
        until("the child process ended", cap, async || {
            status = self.process.try_wait().expect("wait for an own child");
            status.is_some()
        })
        .await;
        // Reaped: from now on the pid may be another process's.
        drop(self.orphan.take());
        status.expect("it was seen to end")
    }

    async fn find(&mut self, what: &str, cap: Duration, fits: impl Fn(&str) -> bool) -> String {
        let (index, line) = self.lines.find(what, self.next, cap, fits).await;
        self.next = index + 1;
        line
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests;
