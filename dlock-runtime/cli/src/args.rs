//! The arguments of the command line.
//!
//! What their values may be is in `values`; `run`'s times are checked against each other here.

use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Args, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use dlock_grammar::bounds::TTL_MAX;
use dlock_grammar::duration::format;
use dlock_grammar::kind::{self, Word};
use dlock_runtime::{AfterCrash, Wait};

use crate::run::watcher::Task;
use crate::status::{self, Failure, in_own_words};
use crate::table::visible;
use crate::values::{Verbatim, after_crash, count, duration, key, pattern, wait};

/// Runs programs under distributed locks on Redis or PostgreSQL, and shows who holds and waits for them.
#[derive(Debug, Parser)]
#[command(
    name = "dlock",
    bin_name = "dlock",
    version,
    after_help = "Settings come from DLOCK_* variables, as for the library. Keys are given without the namespace.\n\nExit status: 1 `check` found harm or `evict` changed nothing, 2 a master of a cluster is missing, 64 wrong usage or settings,\n69 no server or it refuses, 70 a process or file could not be had, 74 the output can't be written,\n75 busy or not due. `dlock run --help` says what `run` ends with."
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
    /// Run a command while this host leads: of all that do so with this key, one at a time
    Lead(LeadArgs),
    /// Wait until nobody holds a lock, without taking it
    Wait(WaitArgs),
    /// List the locks that are held, or the last runs
    Ls(ListArgs),
    /// Show one lock: its holders, who waits in which order, and the last run
    Show(ShowArgs),
    /// Release a lock in its holder's stead, and tell the holder, which then stops; or forget a last run
    Evict(EvictArgs),
    /// Watch who holds and waits, most waiters first
    Top(TopArgs),
    /// Check the server's settings and this user's rights; status 1 if something harms
    Check,
    /// Make the tables of a PostgreSQL database, or bring them up to date
    #[cfg(feature = "postgres")]
    Migrate {
        /// Print the statements instead
        #[arg(long)]
        print: bool,
    },
    /// Measure what a lock costs on this server
    Bench(BenchArgs),
    /// Print the completions for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, Args)]
#[command(
    after_help = "Exit status: the command's (126 or 127 if it can't be started, 128 + n if signal n ended it),\n64 wrong usage or settings and 69 no server or it refuses (nothing was run), 70 a process of `run` was\nkilled or could not be started, 75 busy or, with `--once-per`, not due, 76 lost."
)]
pub(crate) struct RunArgs {
    /// The lock
    #[arg(long, value_parser = key)]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) verbatim: Verbatim,
    /// The lease, renewed every third of it: how long others wait if this machine dies [default: `DLOCK_DEFAULT_TTL`, or 30s]
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) ttl: Option<Duration>,
    /// How long to wait while others hold the lock: a duration or `forever` [default: `DLOCK_DEFAULT_WAIT`, or 3s]
    #[arg(long, value_parser = wait, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) wait: Option<Wait>,
    /// Do not wait
    #[arg(long, conflicts_with = "wait")]
    pub(crate) skip: bool,
    /// Keep the lock at least this long, also when the command is done sooner: for hosts that start it at about the same time
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) min_hold: Option<Duration>,
    /// Skip the command within this time of the start of its last run, on any host, that ended with 0. A daily job says `20h`
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) once_per: Option<Duration>,
    /// If `dlock run` or its machine dies while the command runs: `again` lets the next call run it, `skip` counts it as a run that ended with 0 [default: again]
    #[arg(long, value_parser = after_crash(), requires = "once_per", value_name = "WHAT")]
    pub(crate) after_crash: Option<AfterCrash>,
    /// The time between SIGTERM and SIGKILL when the lock is lost [default: 5s, at most a quarter of the ttl]
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) grace: Option<Duration>,
    /// The exit status if another holder has the lock, or the command is not due
    #[arg(long, default_value_t = status::BUSY, allow_negative_numbers = true, value_name = "STATUS")]
    pub(crate) busy_status: u8,
    /// The exit status if the lock was lost
    #[arg(long, default_value_t = status::LOST, allow_negative_numbers = true, value_name = "STATUS")]
    pub(crate) lost_status: u8,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "A command that ends with 0 ends `dlock lead`. After any other status, or when the lead is lost, it\nresigns, pauses and campaigns again, behind the others. At a signal that asks it to end it passes that on,\nwaits for the command, and resigns. Exit status: 0, or the command's after such a signal (126 or 127 if it\ncan't be started); 64 wrong usage or settings, 69 the server refuses, 70 a process of `lead` was killed or\ncould not be started."
)]
pub(crate) struct LeadArgs {
    /// The key that is led
    #[arg(long, value_parser = key)]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) verbatim: Verbatim,
    /// The lease, renewed every third of it: how long nobody leads if this machine dies [default: `DLOCK_DEFAULT_TTL`, or 30s]
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) ttl: Option<Duration>,
    /// The time between SIGTERM and SIGKILL when the lead is lost [default: 5s, at most a quarter of the ttl]
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) grace: Option<Duration>,
    /// The time between a command that failed and the next campaign
    #[arg(long, default_value = "1s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) pause: Duration,
    /// The command and its arguments, after `--`
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct WaitArgs {
    /// The lock
    #[arg(value_parser = key)]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) verbatim: Verbatim,
    /// End with status 75 if it is still held then [default: wait for ever]
    #[arg(long, value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Which keys: `*` is any text, `?` one character, `[a-c]` one of these
    #[arg(default_value = "*", value_parser = pattern)]
    pub(crate) pattern: String,
    #[command(flatten)]
    pub(crate) verbatim: Verbatim,
    /// List the last runs of `run --once-per` instead
    #[arg(long)]
    pub(crate) records: bool,
    /// The most locks [default: 1000, or all with --json]
    #[arg(long, value_parser = count, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(crate) limit: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The lock
    #[arg(value_parser = key)]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) verbatim: Verbatim,
}

#[derive(Debug, Args)]
#[command(
    override_usage = "dlock evict [OPTIONS] <KEY> --holder <FINGERPRINT>\n       dlock evict [OPTIONS] <KEY> --record"
)]
pub(crate) struct EvictArgs {
    /// The lock
    #[arg(value_parser = key)]
    pub(crate) key: String,
    #[command(flatten)]
    pub(crate) verbatim: Verbatim,
    /// The holder's fingerprint, as `dlock show` prints it
    #[arg(long, value_name = "FINGERPRINT", required = true)]
    pub(crate) holder: Option<String>,
    /// Remove the record of the last run (`run --once-per`) instead, so that the next call runs
    #[arg(long, conflicts_with = "holder")]
    pub(crate) record: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Which keys, as for `ls`
    #[arg(default_value = "*", value_parser = pattern)]
    pub(crate) pattern: String,
    #[command(flatten)]
    pub(crate) verbatim: Verbatim,
    /// The time between two looks
    #[arg(long, default_value = "1s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) every: Duration,
    /// Look once, and print a table
    #[arg(long)]
    pub(crate) once: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// How long it takes in all
    #[arg(long, default_value = "10s", value_parser = duration, allow_hyphen_values = true, value_name = "DURATION")]
    pub(crate) time: Duration,
    /// How many tasks take locks at once
    #[arg(
        long,
        default_value_t = 64,
        allow_negative_numbers = true,
        value_name = "NUMBER"
    )]
    pub(crate) tasks: usize,
}

impl RunArgs {
    /// The times for the watcher, if the ttl has room for them: the argument's, or the settings'.
    pub(crate) fn task(&self, ttl: Duration) -> Result<Task, Failure> {
        const LEAST: Duration = Duration::from_secs(1);
        const GRACE: Duration = Duration::from_secs(5);
        /// Between SIGKILL and the end of the lease, for a machine that is slow: a tenth of the
        /// ttl, at most this.
        const MARGIN: Duration = Duration::from_secs(1);
        if ttl < LEAST {
            let instead = match self.ttl {
                Some(_) => "",
                None => ", so give it, or a longer DLOCK_DEFAULT_TTL",
            };
            return Err(Failure::usage(format!(
                "`--ttl` must be at least 1s: a process can't be ended reliably in less{instead}"
            )));
        }
        if ttl > TTL_MAX {
            return Err(Failure::usage(
                "`--ttl` can be 24h at most; the lease is renewed while the command runs, so a short one is enough",
            ));
        }
        if self.min_hold.is_some_and(|min_hold| min_hold > TTL_MAX) {
            return Err(Failure::usage(
                "`--min-hold` can be 24h at most: give less, or put the date into the key",
            ));
        }
        let margin = (ttl / 10).min(MARGIN);
        let grace = self.grace.unwrap_or_else(|| GRACE.min(ttl / 4));
        let most = (ttl / 2).saturating_sub(margin);
        if grace > most {
            let enough = (grace * 5 / 2).min((grace + MARGIN) * 2); // as the margin is computed
            let enough = Duration::from_millis(
                u64::try_from(enough.as_millis().div_ceil(1_000))
                    .unwrap_or(u64::MAX)
                    .saturating_mul(1_000),
            );
            let longer = if enough > TTL_MAX {
                String::new()
            } else {
                format!("`--ttl {}` or more, or ", format(enough))
            };
            return Err(Failure::usage(format!(
                "`--grace` is too long for this `--ttl`: the command is told to end that long before the lease ends, which must leave half of the lease for renewals; give {longer}`--grace {}` or less",
                format(most)
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

/// The error with its arguments escaped, so that none of them writes a line of its own.
pub(crate) fn on_one_line(mut error: clap::Error) -> clap::Error {
    let one = |value: &ContextValue| match value {
        ContextValue::String(text) => Some(ContextValue::String(visible(text))),
        ContextValue::Strings(all) => Some(ContextValue::Strings(
            all.iter().map(|it| visible(it)).collect(),
        )),
        ContextValue::StyledStrs(all) => Some(ContextValue::StyledStrs(
            all.iter()
                .map(|it| visible(&it.to_string()).into())
                .collect(),
        )),
        _ => None, // clap's own words
    };
    let escaped: Vec<_> = error
        .context()
        .filter_map(|(kind, value)| Some((kind, one(value)?)))
        .collect();
    for (kind, value) in escaped {
        error.insert(kind, value);
    }
    error
}

/// What to write for a word that belongs nowhere, where clap would name it and nothing else: an option
/// that is required is missing, or the `--` in front of the command. `None` for another error.
pub(crate) fn advice(error: &clap::Error, words: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(stray)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let dashes = words.iter().position(|word| word == "--");
    let given = words.get(..dashes.unwrap_or(words.len()))?;
    let cli = Cli::command();
    let subcommand = given.iter().find_map(|word| cli.find_subcommand(word))?;
    if stray == "--once-per" && subcommand.get_name() == "lead" {
        let wrong = kind::check(&[Word::Lead, Word::OncePer]);
        return wrong.first().map(|it| in_own_words(it.to_string()));
    }
    if stray.starts_with('-') {
        return None;
    }
    let is_given = |option: &str| {
        let mut words = given.iter().map(|word| word.to_string_lossy());
        words.any(|word| word.split('=').next() == Some(option))
    };
    let options = subcommand.get_opts().filter(|it| it.is_required_set());
    let mut options = options.filter_map(|it| it.get_long().map(|long| format!("--{long}")));
    let missing = options.find(|option| !is_given(option));
    let takes_command = subcommand.get_positionals().any(Arg::is_last_set);
    let missing_first = match &missing {
        Some(option) => format!("`{option}` is missing, and "),
        None => String::new(),
    };
    match missing {
        _ if takes_command && dashes.is_none() => Some(format!(
            "{missing_first}the command goes behind a `--`, so that its options are not taken for dlock's: `dlock run --key … -- {stray} …`"
        )),
        Some(option) => Some(format!(
            "{missing_first}`{stray}` belongs to no option: did you mean `{option} {stray}`?"
        )),
        None => None,
    }
}
