//! The arguments of the command line.
//!
//! Durations and keys are checked by the library's own grammar.

use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use dlock_runtime::Wait;

use crate::run::Task;
use crate::status::{self, Failure};

/// Runs programs under distributed locks on Redis, and shows who holds and waits for them.
#[derive(Debug, Parser)]
#[command(
    name = "dlock",
    bin_name = "dlock",
    version,
    after_help = "Settings come from DLOCK_* variables, as for the library. Keys are given without the namespace.\n\nExit status: 64 wrong usage or settings, 69 no server or it refuses, 74 the output can't be written,\n75 busy, 76 lost. `dlock run` passes on the command's status: 126 or 127 if it can't be started,\n128 + n if signal n ended it."
)]
pub(crate) struct Cli {
    /// The server, in place of `DLOCK_URL`. Others can read a password in it with `ps`: prefer the variable
    #[arg(long, global = true, value_name = "URL")]
    pub(crate) url: Option<String>,
    /// Print JSON: one document, or one object a line; `run` prints its messages so
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a command while holding a lock, and end it before the lock is lost
    Run(RunArgs),
    /// Wait until nobody holds a lock, without taking it
    Wait(WaitArgs),
    /// List the locks that are held
    Ls(ListArgs),
    /// Show one lock: its holders, and who waits in which order
    Show {
        /// The lock
        key: String,
    },
    /// Release a lock in its holder's stead; the holder is not stopped
    Evict(EvictArgs),
    /// Watch who holds and waits, most waiters first
    Top(TopArgs),
    /// Check the server's settings and this user's rights; status 1 if something harms
    Check,
    /// Measure what a lock costs on this server
    Bench(BenchArgs),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The lock
    #[arg(long)]
    pub(crate) key: String,
    /// The lease, renewed every third of it: how long others wait if this machine dies
    #[arg(long, default_value = "30s", value_parser = duration)]
    pub(crate) ttl: Duration,
    /// How long to wait while others hold the lock: a duration or `forever` [default: `DLOCK_DEFAULT_WAIT`, or 3s]
    #[arg(long, value_parser = wait, value_name = "DURATION")]
    pub(crate) wait: Option<Wait>,
    /// Do not wait
    #[arg(long, conflicts_with = "wait")]
    pub(crate) skip: bool,
    /// Keep the lock at least this long, also when the command is done sooner: for hosts that start it at about the same time
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) min_hold: Option<Duration>,
    /// The time between SIGTERM and SIGKILL when the lock is lost [default: 5s, at most a quarter of the ttl]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) grace: Option<Duration>,
    /// The exit status if another holder has the lock
    #[arg(long, default_value_t = status::BUSY, value_name = "STATUS")]
    pub(crate) busy_status: u8,
    /// The exit status if the lock was lost
    #[arg(long, default_value_t = status::LOST, value_name = "STATUS")]
    pub(crate) lost_status: u8,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The lock
    pub(crate) key: String,
    /// End with status 75 if it is still held then [default: wait for ever]
    #[arg(long, value_parser = duration, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which keys: `*` is any text, `?` one character, `[a-c]` one of these
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// The most locks [default: 1000, or all with --json]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct EvictArgs {
    /// The lock
    pub(crate) key: String,
    /// The holder's fingerprint, as `dlock show` prints it
    #[arg(long, value_name = "FINGERPRINT")]
    pub(crate) holder: String,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Which keys, as for `ls`
    #[arg(default_value = "*")]
    pub(crate) pattern: String,
    /// The time between two looks
    #[arg(long, default_value = "1s", value_parser = duration, value_name = "DURATION")]
    pub(crate) every: Duration,
    /// Look once, and print a table
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How long it takes in all
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "DURATION")]
    pub(crate) time: Duration,
    /// How many tasks take locks at once
    #[arg(long, default_value_t = 64, value_name = "NUMBER")]
    pub(crate) tasks: usize,
}

impl RunArgs {
    /// The times for the watcher, if the ttl has room for them.
    pub(crate) fn task(&self) -> Result<Task, Failure> {
        const LEAST: Duration = Duration::from_secs(1);
        const GRACE: Duration = Duration::from_secs(5);
        /// Between SIGKILL and the end of the lease, for a machine that is slow: a tenth of the
        /// ttl, at most this.
        const MARGIN: Duration = Duration::from_secs(1);
        if self.ttl < LEAST {
            return Err(Failure::usage(
                "`--ttl` must be at least 1s: a process can't be ended reliably in less",
            ));
        }
        let margin = (self.ttl / 10).min(MARGIN);
        let grace = self.grace.unwrap_or_else(|| GRACE.min(self.ttl / 4));
        if grace + margin > self.ttl / 2 {
            let enough = (grace * 5 / 2).min((grace + MARGIN) * 2); // as the margin is computed
            let seconds = u64::try_from(enough.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX);
            return Err(Failure::usage(format!(
                "`--grace` is too long for this `--ttl`: the command is told to end that long before the lease ends, which must leave half of the lease for renewals; give `--ttl {seconds}s` or more, or a shorter grace",
            )));
        }
        // With a terminal the command stays in the group of this process, so that it may read from
        // it, and Ctrl-C and Ctrl-Z reach it as usual.
        let group = match File::open("/dev/tty") {
            Ok(_) => rustix::process::getpgrp().as_raw_pid(),
            Err(_) => 0,
        };
        Ok(Task {
            grace,
            margin,
            group,
        })
    }
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    dlock_grammar::duration::parse(text).map_err(|error| error.to_string())
}

fn wait(text: &str) -> Result<Wait, String> {
    match text {
        "forever" => Ok(Wait::Forever),
        text => duration(text).map(Wait::from),
    }
}
