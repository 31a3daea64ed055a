//! Another process of this program; both talk in lines of text. This file is the parent's end; what
//! a part does is in the file of its program.

use std::env;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Failure;

/// The first argument of a part, which no user writes by chance.
pub(crate) const WORD: &str = "--part-of-a-run";

/// A child process, killed when this is dropped.
pub(crate) struct Part {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Part {
    /// Starts a part with these settings of dlock, and none that this process was given.
    pub(crate) fn start(words: &[String], settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let mut command = Command::new(env::current_exe()?);
        let inherited = env::vars_os().map(|(name, _)| name);
        for name in inherited.filter(|name| name.to_string_lossy().starts_with("DLOCK_")) {
            command.env_remove(name);
        }
        let mut child = command
            .arg(WORD)
            .args(words)
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdout = child.stdout.take().ok_or("stdout is piped")?;
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            lines: BufReader::new(stdout).lines(),
        })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The rest of the next line, which has to begin with `prefix`.
    pub(crate) fn line(&mut self, prefix: &str) -> Result<String, Failure> {
        let line = self
            .lines
            .next()
            .ok_or("a part of the run ended too soon")??;
        let rest = line.strip_prefix(prefix);
        rest.map(str::to_owned)
            .ok_or_else(|| format!("a part of the run said `{line}`, not `{prefix}…`").into())
    }

    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Failure> {
        let stdin = self.stdin.as_mut().ok_or("stdin is piped")?;
        Ok(writeln!(stdin, "{line}")?)
    }

    pub(crate) fn end(mut self) -> Result<(), Failure> {
        drop(self.stdin.take());
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a part of the run failed: {status}").into())
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended already
        let _ = self.child.wait();
    }
}

/// The next line that the parent wrote by [`Part::tell`].
pub(crate) fn told() -> Result<String, Failure> {
    let line = std::io::stdin().lines().next();
    Ok(line.ok_or("the run that this is a part of has ended")??)
}

/// Nanoseconds of the clock that all processes of this machine share.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The time left until this moment of [`now`].
pub(crate) fn left(moment: u64) -> Duration {
    Duration::from_nanos(moment.saturating_sub(now()))
}
