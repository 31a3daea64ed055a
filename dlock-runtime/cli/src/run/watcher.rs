//! The process between `dlock run` and the command: it ends the command before the lease does, also
//! when `dlock run` is stopped, killed or cut off from the server.
//!
//! It knows nothing of Redis: `dlock run` sends it each new deadline, and the end of that socket is
//! the end of `dlock run`. It leads a process group of its own, so that what the terminal sends to
//! the command's does not reach it. When `dlock run` hears that the watcher has gone, it ends what
//! is left; the kernel has killed the command by then (`launch`).

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::signal::unix::{SignalKind, signal};

use super::frame::{self, Frame, tell};
use super::plan::{Plan, Step, Why};
use super::{clock, processes, signals};
use crate::status;

/// How long the clock is not looked at: a timer does not count the time of a suspended machine.
const LOOK_AT_MOST: Duration = Duration::from_millis(250);
/// How often it looks whether what the command left behind has ended.
const LOOK_FOR_OTHERS: Duration = Duration::from_millis(20);
/// How often orphans are reaped while the command runs.
const REAP_AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// The pause between two rounds of SIGKILL, at first and at most: another user's processes stay.
const KILL_AGAIN: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(1));

/// What the watcher is started with.
pub(crate) struct Task {
    pub(crate) grace: Duration,
    pub(crate) margin: Duration,
    /// The process group that the command joins; 0 for one of its own.
    pub(crate) group: i32,
}

impl Task {
    /// As arguments of the hidden subcommand, before the command's.
    pub(crate) fn args(&self) -> [String; 3] {
        [
            self.grace.as_millis().to_string(),
            self.margin.as_millis().to_string(),
            self.group.to_string(),
        ]
    }

    fn read(args: &mut impl Iterator<Item = OsString>) -> Option<Self> {
        let mut number = || args.next()?.to_str()?.parse::<u32>().ok();
        Some(Self {
            grace: Duration::from_millis(number()?.into()),
            margin: Duration::from_millis(number()?.into()),
            group: number()?.cast_signed(),
        })
    }
}

/// The hidden subcommand. Its standard input is the socket to `dlock run`.
pub(crate) fn main(mut args: impl Iterator<Item = OsString>) -> u8 {
    let task = Task::read(&mut args);
    let socket = io::stdin().as_fd().try_clone_to_owned();
    let (Some(task), Ok(socket)) = (task, socket) else {
        return status::INTERNAL;
    };
    let Some((Frame::Deadline(deadline), stdin)) = frame::receive_first(&socket) else {
        return status::INTERNAL; // `dlock run` has gone
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let watched = runtime.and_then(|runtime| {
        let plan = Plan::new(deadline, task.grace, task.margin, clock::now());
        runtime.block_on(watch(
            socket.into(),
            stdin,
            plan,
            task.group,
            args.collect(),
        ))
    });
    watched.map_or(status::INTERNAL, |()| 0)
}

async fn watch(
    socket: UnixStream,
    stdin: OwnedFd,
    plan: Plan,
    group: i32,
    command: Vec<OsString>,
) -> io::Result<()> {
    let (reader, writer) = frame::split(socket)?;
    // Received and dropped: whoever signals the command's processes one by one means the command.
    let _ignored = signals::receive(signals::FORWARDED.into_iter().chain(signals::STOPPING))?;
    let mut children = signal(SignalKind::child())?;
    let mut frames = frame::frames(reader);
    processes::adopt_orphans();
    let command = match start(stdin, group, command) {
        Ok(pid) => pid,
        Err(error) => {
            tell(&writer, Frame::Failed(error.raw_os_error().unwrap_or(0)));
            return Ok(());
        }
    };
    tell(&writer, Frame::Started(command.as_raw_pid()));
    let mut watcher = Watcher {
        plan,
        command: Some(command),
        leads_group: group == 0,
        socket: writer,
        status: None,
        kill_again: KILL_AGAIN.0,
        orphans_ended: false,
        reaped: clock::now(),
    };
    let mut connected = true;
    while let Some(pause) = watcher.turn() {
        tokio::select! {
            frame = frames.recv(), if connected => {
                connected = frame.is_some();
                watcher.hear(frame);
            }
            _ = children.recv() => watcher.orphans_ended = true,
            () = tokio::time::sleep(pause) => {}
        }
    }
    watcher.finish();
    Ok(())
}

/// Starts `launch`, which becomes the command.
fn start(stdin: OwnedFd, group: i32, command: Vec<OsString>) -> io::Result<Pid> {
    let child = Command::new(super::this_program()?)
        .arg0("dlock")
        .arg(super::LAUNCH)
        .arg(std::process::id().to_string())
        .args(command)
        .stdin(Stdio::from(stdin))
        .process_group(group)
        .spawn()?;
    // A handle that is dropped does not reap; the number stays the child's.
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

struct Watcher {
    plan: Plan,
    /// Until it is reaped.
    command: Option<Pid>,
    leads_group: bool,
    socket: UnixStream,
    /// The command's exit status, once it has ended.
    status: Option<u8>,
    kill_again: Duration,
    /// A child has ended since all ended orphans were [`reaped`](Self::reaped).
    orphans_ended: bool,
    reaped: u64,
}

impl Watcher {
    /// Does what is due, and gives the time until the next look; `None` when nothing is left.
    fn turn(&mut self) -> Option<Duration> {
        let now = clock::now();
        if self.status.is_none()
            && let Some(status) = self.command.and_then(processes::status_of)
        {
            self.status = Some(status);
            self.plan.command_ended(now);
        }
        if self.status.is_some() && self.is_alone() {
            return None;
        }
        match self.plan.next(now) {
            Step::Wait(until) => {
                self.reap_orphans(now);
                let look = match self.status {
                    Some(_) => LOOK_FOR_OTHERS,
                    None => LOOK_AT_MOST,
                };
                Some(look.min(Duration::from_nanos(until.saturating_sub(now))))
            }
            Step::Terminate(why) => {
                self.signal_all(Signal::TERM);
                self.signal_all(Signal::CONT); // one that is stopped could not obey
                tell(&self.socket, Frame::Ending(why));
                Some(Duration::ZERO)
            }
            Step::Kill => {
                self.signal_all(Signal::KILL);
                let pause = self.kill_again;
                self.kill_again = (pause * 2).min(KILL_AGAIN.1);
                Some(pause)
            }
        }
    }

    /// Nothing of the command is left, itself included.
    fn is_alone(&mut self) -> bool {
        let seen = processes::survivors(self.command, &[]);
        if seen.is_empty()
            && let Some(command) = self.command.take()
        {
            processes::reap(command);
        }
        seen.is_empty() && !processes::has_children()
    }

    fn signal_all(&self, signal: Signal) {
        let others = processes::survivors(self.command, &[]);
        processes::signal_all(self.command, self.leads_group, &others, signal);
    }

    /// Now and then, since it reads the whole process table.
    fn reap_orphans(&mut self, now: u64) {
        let since = Duration::from_nanos(now.saturating_sub(self.reaped));
        if self.orphans_ended && since >= REAP_AT_MOST_EVERY {
            processes::survivors(self.command, &[]);
            (self.orphans_ended, self.reaped) = (false, now);
        }
    }

    fn hear(&mut self, frame: Option<Frame>) {
        match frame {
            Some(Frame::Deadline(deadline)) => self.plan.renewed(deadline, clock::now()),
            Some(Frame::Signal(number)) => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    processes::signal_all(self.command, self.leads_group, &[], signal);
                    if signal == Signal::TERM {
                        // One that is stopped could not obey.
                        processes::signal_all(self.command, self.leads_group, &[], Signal::CONT);
                    }
                }
            }
            Some(Frame::Lost) => self.plan.end(Why::Lost, clock::now()),
            _ => self.plan.end(Why::Orphaned, clock::now()),
        }
    }

    fn finish(self) {
        if let Some(status) = self.status {
            tell(&self.socket, Frame::Ended(status));
        }
    }
}
