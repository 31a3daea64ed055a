//! `dlock run`: holds a lock while a command runs. `lead` does so again and again.
//!
//! Three processes: this one holds the lock and renews it; the `watcher` ends the command before the
//! lease ends, told by `frame`s and timed by `plan`; `launch` becomes the command. `processes` finds
//! and signals what descends from them. Read `watcher` after this file.
//!
//! Invariant: the lock is released only when no process of the command is left.

mod clock;
mod frame;
mod launch;
pub(crate) mod lead;
mod plan;
mod processes;
pub(crate) mod signals;
pub(crate) mod watcher;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use dlock_runtime::{
    __private, Concern, Key, LockError, LockGuard, LockInfo, LockListener, LockPool, LostCause,
    Release, Wait,
};
use rustix::process::{Pid, Signal};
use tokio::sync::{Notify, mpsc};

use self::frame::{Frame, tell};
use self::plan::Why;
use self::watcher::Task;
use crate::args::RunArgs;
use crate::output::Notices;
use crate::server;
use crate::status::{self, Failure};

/// The hidden subcommands, which are no part of the interface.
const WATCH: &str = "__watch";
const LAUNCH: &str = "__launch";

/// How often the watcher is told the deadline, besides at each renewal.
const TELL_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// How long it waits at the end for the server's answers.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// How long it asks, after a loss, what is wrong with the server.
const ASK_WITHIN: Duration = Duration::from_millis(500);

/// The status of the hidden subcommand that this process was started for, if it was for one.
pub(crate) fn hidden(mut args: impl Iterator<Item = OsString>) -> Option<u8> {
    match args.next()?.to_str()? {
        WATCH => Some(watcher::main(args)),
        LAUNCH => Some(launch::main(args)),
        _ => None,
    }
}

/// This program's file, to be started again.
fn this_program() -> io::Result<PathBuf> {
    // If it was replaced meanwhile, the new one may speak another language.
    let running = PathBuf::from("/proc/self/exe");
    match std::env::current_exe() {
        Ok(path) if path.exists() => Ok(path),
        _ if running.exists() => Ok(running),
        other => other,
    }
}

/// Takes the lock, runs the command, and gives its exit status.
pub(crate) async fn run(args: RunArgs, url: Option<&str>, notices: Notices) -> Result<u8, Failure> {
    let (mut run, pool) = Run::prepare(args, "dlock run", url, notices).await?;
    let ended = run.under_lock(&pool).await;
    run.leave(&pool).await;
    ended
}

/// Wakes the task that tells the watcher.
struct Renewed(Arc<Notify>);

impl LockListener for Renewed {
    fn renewed(&self, _: &LockInfo<'_>, _: Duration, _: Duration) {
        self.0.notify_one();
    }
}

struct Run {
    args: RunArgs,
    /// What others see of the command.
    name: &'static str,
    ttl: Duration,
    task: Task,
    notices: Notices,
    renewed: Arc<Notify>,
    signals: mpsc::UnboundedReceiver<Signal>,
    /// The first signal that asked this process to end, if one has.
    told_to_end: Option<Signal>,
}

/// How the command ended.
struct Ended {
    status: u8,
    /// Why the watcher told it to end, if it did.
    why: Option<Why>,
    cause: Option<LostCause>,
}

impl Run {
    /// `verb`: of this program, as others see it.
    async fn prepare(
        args: RunArgs,
        verb: &str,
        url: Option<&str>,
        notices: Notices,
    ) -> Result<(Self, LockPool), Failure> {
        let renewed = Arc::new(Notify::new());
        // Lazy, so that the wait for the lock is also one for its server.
        let config = server::config(url)?
            .lazy()
            .listener(Renewed(renewed.clone()));
        let pool = LockPool::connect(config).await?;
        args.verbatim.check_key(&args.key, pool.namespace())?;
        let ttl = args.ttl.unwrap_or(pool.default_ttl());
        let task = args.task(ttl)?;
        let signals = signals::receive(signals::FORWARDED)
            .map_err(|error| Failure::internal(format!("can't receive signals: {error}")))?;
        let run = Self {
            name: String::leak(named(verb, &args.command)),
            args,
            ttl,
            task,
            notices,
            renewed,
            signals,
            told_to_end: None,
        };
        Ok((run, pool))
    }

    /// What an outage leaves is free when its lease ends.
    async fn leave(&self, pool: &LockPool) {
        let _ = tokio::time::timeout(LEAVE_WITHIN, pool.shutdown()).await;
    }

    /// Takes the lock, runs the command, and gives its exit status.
    async fn under_lock(&mut self, pool: &LockPool) -> Result<u8, Failure> {
        let mut request = pool
            .lock(Key::verbatim(self.args.key.as_str()))
            .function(self.name)
            .renew();
        request = request.ttl(self.ttl).release(Release::Strict);
        if let Some(min_hold) = self.args.min_hold {
            request = request.min_hold(min_hold);
        }
        if let Some(period) = self.args.once_per {
            request = request.once_per(period);
        }
        if let Some(after_crash) = self.args.after_crash {
            request = request.after_crash(after_crash);
        }
        if self.args.skip {
            request = request.wait(Wait::Once);
        } else if let Some(wait) = self.args.wait {
            request = request.wait(wait);
        }
        let granted = tokio::select! {
            granted = request.acquire() => granted,
            signal = self.signals.recv() => {
                self.told_to_end = signal;
                return Ok(by_signal(signal));
            }
        };
        let guard = granted.map_err(|error| self.failed(error))?;
        let ended = self.command(&guard).await?;
        self.finish(pool, guard, ended).await
    }

    /// A failure to take the lock, with the status that the caller chose.
    fn failed(&self, error: LockError) -> Failure {
        let was_skipped = error.is_busy() || error.is_not_due();
        let mut failure = Failure::from(error);
        if was_skipped {
            failure.status = self.args.busy_status;
        }
        failure
    }

    /// Runs the command to its end.
    async fn command(&mut self, guard: &LockGuard) -> Result<Ended, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            __private::run_failed(guard);
            Failure::internal(format!(
                "can't start the process that watches the command: {error}; nothing was run"
            ))
        };
        let strangers = processes::children();
        processes::adopt_orphans();
        let started = self.start(guard).map_err(|error| failed(&error))?;
        let ((reader, socket), mut process) = started;
        let mut watched = Watched {
            socket,
            frames: frame::frames(reader),
            has_terminal: self.task.group != 0,
            command: None,
            deadline: 0,
            ended: None,
            why: None,
            cause: None,
            lost_at: None,
        };
        watched.converse(self, guard).await;
        // Nearly always it has gone by itself.
        let _ = (process.kill(), process.wait());
        if watched.ended.is_none() {
            let group = watched.command.filter(|_| self.task.group == 0);
            end_rest(group, &strangers, self.notices).await;
        }
        match watched.ended {
            Some(Frame::Ended(status)) => Ok(Ended {
                status,
                why: watched.why,
                cause: watched.cause,
            }),
            Some(Frame::Failed(errno)) => Err(failed(&io::Error::from_raw_os_error(errno))),
            _ if watched.cause.is_some() || watched.why.is_some() => Ok(Ended {
                status: self.args.lost_status,
                why: watched.why,
                cause: watched.cause,
            }),
            _ => Err(Failure::internal(
                "the process that watches the command was killed, so the command was ended; do not kill it (`dlock __watch`), and if nobody did, see whether the kernel ran out of memory",
            )),
        }
    }

    /// Starts the watcher, which starts the command.
    fn start(
        &self,
        guard: &LockGuard,
    ) -> io::Result<((tokio::net::UnixStream, UnixStream), Child)> {
        let (ours, theirs) = UnixStream::pair()?;
        let watcher = Command::new(this_program()?)
            .arg0("dlock")
            .arg(WATCH)
            .args(self.task.args())
            .args(&self.args.command)
            .env("DLOCK_KEY", &self.args.key)
            .env("DLOCK_FENCE", guard.fence().get().to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .process_group(0)
            .spawn()?;
        let deadline = Frame::Deadline(deadline(guard));
        frame::send_first(&ours, deadline, io::stdin().as_fd())?;
        Ok((frame::split(ours)?, watcher))
    }

    /// Gives the lock back, and decides on the exit status.
    async fn finish(&self, pool: &LockPool, guard: LockGuard, ended: Ended) -> Result<u8, Failure> {
        let key = guard.key().to_string();
        let lost = |how: &str| {
            let message = format!("{key} was lost: {how}; what the command did until then stands");
            Failure::new(self.args.lost_status, "lost", message)
        };
        match (ended.cause, ended.why) {
            (Some(LostCause::Deadline), _) | (None, Some(Why::Deadline | Why::Orphaned)) => {
                drop(guard.release().await); // it counts as lost, whatever became of it
                let why = wrong_now(pool).await;
                return Err(lost(&format!(
                    "it could not be renewed in time, so the command was ended before its lease{why}; check the server and the network, and raise `--ttl` if this machine stands still at times"
                )));
            }
            (Some(cause), _) => {
                return Err(lost(&format!("{cause}, so the command was ended")));
            }
            (None, Some(Why::LeftBehind)) => self.notices.say(
                "left_behind",
                "the command left processes running, which were ended; start services by their manager, not from the command",
            ),
            (None, Some(Why::Lost) | None) => {}
        }
        let has_run = self.args.once_per.is_some() && ended.status == 0;
        let released = if has_run {
            guard.release_done().await
        } else {
            guard.release().await
        };
        match released {
            Err(LockError::Lost { cause, .. }) if cause != LostCause::Unclear => {
                let cause = match cause {
                    LostCause::Deadline => "its lease was over: the server could not be reached in time or refused to renew it, or this machine stood still".to_owned(),
                    other => other.to_string(),
                };
                Err(lost(&format!("when the command had ended, {cause}")))
            }
            Err(_) => {
                let run = if has_run {
                    "; this run may not be recorded"
                } else {
                    ""
                };
                self.notices.say(
                    "unconfirmed",
                    &format!("the release of {key} was not confirmed; it is free when its lease ends, {} after the last renewal{run}", dlock_grammar::duration::format(self.ttl)),
                );
                Ok(ended.status)
            }
            Ok(_) => Ok(ended.status),
        }
    }
}

/// What is wrong with the server now, which may be why the lease was not renewed: a right that is
/// missing, or why it does not answer. Empty if there is nothing, or no answer soon.
async fn wrong_now(pool: &LockPool) -> String {
    let why = match tokio::time::timeout(ASK_WITHIN, pool.check()).await {
        Ok(Ok(findings)) => findings
            .iter()
            .find(|it| it.concern() == Concern::Rights && it.is_harmful())
            .map(ToString::to_string),
        Ok(Err(error)) => Failure::from(error).message,
        Err(_) => None,
    };
    why.map_or_else(String::new, |why| {
        format!(" (asked now: {})", status::in_own_words(why))
    })
}

/// The conversation with the watcher.
struct Watched {
    socket: UnixStream,
    frames: mpsc::UnboundedReceiver<Frame>,
    /// The command is in the group of this process, which gets the terminal's signals.
    has_terminal: bool,
    command: Option<Pid>,
    /// The latest end of the lease that was known.
    deadline: u64,
    ended: Option<Frame>,
    why: Option<Why>,
    cause: Option<LostCause>,
    lost_at: Option<u64>,
}

impl Watched {
    /// Until the watcher has gone. Whatever it does not do in time is done here.
    async fn converse(&mut self, run: &mut Run, guard: &LockGuard) {
        let mut lost = std::pin::pin!(guard.lost());
        loop {
            // Of a lost lease nothing remains, so the moment before counts.
            self.deadline = self.deadline.max(deadline(guard));
            let left = self.kill_at(run).saturating_sub(clock::now());
            let pause = Duration::from_nanos(left).min(TELL_AT_LEAST_EVERY);
            tokio::select! {
                biased;
                frame = self.frames.recv() => match frame {
                    Some(Frame::Ending(why)) => self.why = self.why.or(Some(why)),
                    Some(Frame::Started(pid)) => self.command = Pid::from_raw(pid),
                    Some(frame) => self.ended = Some(frame),
                    None => return,
                },
                cause = &mut lost, if self.cause.is_none() && self.ended.is_none() => {
                    (self.cause, self.lost_at) = (Some(cause), Some(clock::now()));
                    tell(&self.socket, Frame::Lost);
                }
                Some(signal) = run.signals.recv() => {
                    run.told_to_end = run.told_to_end.or(Some(signal).filter(|it| lead::ends(*it)));
                    self.forward(signal);
                }
                () = run.renewed.notified() => tell(&self.socket, Frame::Deadline(deadline(guard))),
                () = tokio::time::sleep(pause) => {
                    tell(&self.socket, Frame::Deadline(deadline(guard)));
                    if left == 0 && self.ended.is_none() {
                        self.why = self.why.or(Some(Why::Deadline));
                        return; // the watcher stands still
                    }
                }
            }
        }
    }

    /// When this process kills everything itself: after the watcher should have, before the lease
    /// ends.
    fn kill_at(&self, run: &Run) -> u64 {
        let grace = u64::try_from(run.task.grace.as_nanos()).unwrap_or(u64::MAX);
        let half = u64::try_from(run.task.margin.as_nanos() / 2).unwrap_or(u64::MAX);
        match self.lost_at.filter(|_| self.cause == Some(LostCause::Gone)) {
            Some(at) => at.saturating_add(grace).saturating_add(half),
            None => self.deadline.saturating_sub(half),
        }
    }

    fn forward(&self, signal: Signal) {
        // The terminal sends these to the whole group, so the command has it already.
        let by_terminal = matches!(signal, Signal::INT | Signal::QUIT);
        if !(self.has_terminal && by_terminal) {
            tell(&self.socket, Frame::Signal(signal.as_raw()));
        }
    }
}

/// What others see of the command: its program and, if that is given a file, such as a script, the
/// file. Other arguments may be secrets.
fn named(verb: &str, command: &[OsString]) -> String {
    let name = |path: &OsString| {
        let name = Path::new(path).file_name().unwrap_or(path);
        format!(" {}", name.to_string_lossy())
    };
    let script = command.get(1).filter(|it| Path::new(it).is_file());
    let shown = command.first().into_iter().chain(script);
    shown.fold(verb.to_owned(), |all, path| all + &name(path))
}

/// The end of the lease by [`clock`]. The clock is read first, so it is never too late.
fn deadline(guard: &LockGuard) -> u64 {
    let now = clock::now();
    let remaining = u64::try_from(guard.remaining().as_nanos()).unwrap_or(u64::MAX);
    now.saturating_add(remaining)
}

/// Kills what the watcher left: only if it was killed or stood still.
async fn end_rest(group: Option<Pid>, strangers: &[Pid], notices: Notices) {
    processes::signal_all(group, true, &[], Signal::KILL);
    let mut rounds = 0_u32;
    loop {
        let rest = processes::survivors(None, strangers);
        // With strangers among the children, only the process table can tell.
        if rest.is_empty() && (!strangers.is_empty() || !processes::has_children()) {
            return;
        }
        processes::signal_all(None, false, &rest, Signal::KILL);
        rounds += 1;
        if rounds == 200 {
            let pids: Vec<_> = rest.iter().map(|it| it.pid.to_string()).collect();
            notices.say(
                "stubborn",
                &format!("these processes of the command can't be ended, because they are another user's or hang in the kernel: {}; end them", pids.join(", ")),
            );
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The status of a program that a signal ended.
fn by_signal(signal: Option<Signal>) -> u8 {
    let number = signal.map_or(0, Signal::as_raw);
    u8::try_from(128 + number).unwrap_or(status::INTERNAL)
}
