//! Signals to processes that this crate started, by pid; each call returns when its effect can be
//! seen in `/proc`.

use std::fs;
use std::process::Child;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::until_blocking;

const CAP: Duration = Duration::from_secs(10);

/// SIGSTOP. Returns when the kernel reports the process as stopped, for `kill` itself returns
/// earlier.
pub(crate) fn stop(pid: u32) {
    send(pid, Signal::STOP);
    until_blocking("the process is stopped", CAP, || is_stopped(pid));
}

/// SIGCONT. Returns when the process is no longer stopped.
pub(crate) fn cont(pid: u32) {
    send(pid, Signal::CONT);
    until_blocking("the process goes on", CAP, || !is_stopped(pid));
}

/// SIGKILL, then reaps the child. Does nothing to a child that was reaped before: its pid may be
/// another process's by now.
pub(crate) fn kill_and_reap(child: &mut Child) {
    // `Child::kill` is a no-op once the child was waited for.
    child.kill().expect("SIGKILL to an own child");
    child.wait().expect("wait for an own child");
}

fn send(pid: u32, signal: Signal) {
    let raw = i32::try_from(pid).expect("a pid is an i32");
    let target = Pid::from_raw(raw).expect("a pid is not 0");
    kill_process(target, signal).expect("signal to an own child");
}

/// Reads the third field of `/proc/<pid>/stat`, after a name in parentheses that may itself contain
/// spaces.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("/proc of a child");
    let (_, fields) = stat
        .rsplit_once(") ")
        .expect("/proc/<pid>/stat names the process");
    fields.starts_with('T')
}
