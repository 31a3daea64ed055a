//! The processes that descend from this one, and signals to them.
//!
//! On Linux a *subreaper* inherits every orphan among its descendants, so none can hide by a double
//! fork or a group of its own, and "no children" is the proof that all are gone. Elsewhere only
//! the command's process group is known.
//!
//! Invariant: a signal goes only to a process that was seen to descend from this one. The direct
//! child stays unreaped until no other was seen, so that its number names no other process or group.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid,
    waitpid,
};

/// A descendant of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    parent: i32,
    group: i32,
    /// It has ended, and its parent has not asked how.
    is_zombie: bool,
}

/// From now on, orphans among the descendants become children of this process.
pub(crate) fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
        eprintln!("dlock: processes that leave the command's group can't be ended: {error}");
    }
}

/// This process is killed when the one that started it ends. `false` if that has ended already.
pub(crate) fn die_with_parent(parent: i32) -> bool {
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return false;
    }
    rustix::process::getppid().is_some_and(|pid| pid.as_raw_pid() == parent)
}

/// The exit status of this child, as a shell gives it, once it has ended. It stays a zombie.
pub(crate) fn status_of(child: Pid) -> Option<u8> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(child), options).ok()??;
    let signal = status.terminating_signal().map(|signal| signal + 128);
    let status = status.exit_status().or(signal)?;
    Some(u8::try_from(status & 0xff).unwrap_or(u8::MAX))
}

/// Reaps this child; `false` if it has not ended.
pub(crate) fn reap(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

/// Whether this process has a child, ended or not. `/proc` is read entry by entry, so a process that
/// forks and ends meanwhile can hide its child from [`survivors`]; the kernel's answer is exact, as
/// every orphan among the descendants is a child.
pub(crate) fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, options), Err(rustix::io::Errno::CHILD))
}

/// Reaps the orphans that this process inherited and that have ended, and gives the descendants
/// that have not. Neither `child` is among those, nor `strangers` and what descends from them.
pub(crate) fn survivors(child: Option<Pid>, strangers: &[Pid]) -> Vec<Process> {
    let me = rustix::process::getpid().as_raw_pid();
    // A process whose first thread has ended looks like a zombie while its others run, but can't be
    // reaped. Other parents' zombies count with their parents.
    let has_ended = |it: &Process| it.is_zombie && (it.parent != me || reap(it.pid));
    let mut found = descendants(me, strangers);
    found.retain(|process| Some(process.pid) != child && !has_ended(process));
    found
}

/// The children that this process has had since before it became `dlock`: a shell can start some
/// and then `exec`.
pub(crate) fn children() -> Vec<Pid> {
    let me = rustix::process::getpid().as_raw_pid();
    let all = descendants(me, &[]).into_iter();
    let own = all.filter(|process| process.parent == me);
    own.map(|process| process.pid).collect()
}

/// Signals the group that `child` leads, if it does, and all others of these processes.
pub(crate) fn signal_all(
    child: Option<Pid>,
    leads_group: bool,
    others: &[Process],
    signal: Signal,
) {
    let group = child.filter(|_| leads_group);
    // Whoever can't be signalled has ended, or runs as another user; the caller looks again.
    match (group, child) {
        (Some(group), _) => drop(kill_process_group(group, signal)),
        (None, Some(child)) => drop(kill_process(child, signal)),
        (None, None) => {}
    }
    let in_group = |process: &&Process| Some(process.group) != group.map(Pid::as_raw_pid);
    for process in others.iter().filter(in_group) {
        signal_one(process, signal);
    }
}

/// The number of a process that has ended may be given to another one at any time, so a handle is
/// opened first, then it is looked at whether that is the process that was seen.
#[cfg(target_os = "linux")]
fn signal_one(process: &Process, signal: Signal) {
    use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

    match pidfd_open(process.pid, PidfdFlags::empty()) {
        Ok(handle) => {
            let is_same = read(process.pid.as_raw_pid())
                .is_some_and(|now| (now.parent, now.group) == (process.parent, process.group));
            if is_same {
                let _ = pidfd_send_signal(handle, signal);
            }
        }
        Err(rustix::io::Errno::NOSYS) => drop(kill_process(process.pid, signal)), // before 5.3
        Err(_) => {}                                                              // it has ended
    }
}

#[cfg(not(target_os = "linux"))]
fn signal_one(process: &Process, signal: Signal) {
    let _ = kill_process(process.pid, signal);
}

#[cfg(target_os = "linux")]
fn descendants(of: i32, except: &[Pid]) -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut others: Vec<Process> = pids.filter_map(read).collect();
    others.retain(|process| !except.contains(&process.pid));
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        let children = others.extract_if(.., |process| process.parent == parent);
        let before = found.len();
        found.extend(children);
        parents.extend(found.iter().skip(before).map(|it| it.pid.as_raw_pid()));
    }
    found
}

#[cfg(not(target_os = "linux"))]
fn descendants(_: i32, _: &[Pid]) -> Vec<Process> {
    Vec::new()
}

/// Fields 3 to 5 of `/proc/<pid>/stat`, after a name in parentheses that may hold anything.
#[cfg(target_os = "linux")]
fn read(pid: i32) -> Option<Process> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    Some(Process {
        pid: Pid::from_raw(pid)?,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
        is_zombie: matches!(state, "Z" | "X"),
    })
}
