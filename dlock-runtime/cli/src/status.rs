//! The exit statuses, and the failures that lead to them. The page `docs/reference/command.md` lists them.
//!
//! Invariant: no message holds a token, a password or a URL.

use std::error::Error as _;
use std::io;

use dlock_runtime::{LockError, Refusal, UnavailableCause};

/// A check or an eviction says no.
pub(crate) const NO: u8 = 1;
/// A part of the locks could not be looked at, and the rest is printed.
pub(crate) const PARTIAL: u8 = 2;
/// Arguments or settings that can't work (`EX_USAGE`).
pub(crate) const USAGE: u8 = 64;
/// The server can't be reached, or refuses (`EX_UNAVAILABLE`).
pub(crate) const UNAVAILABLE: u8 = 69;
/// A process of `dlock run` was killed or could not be started (`EX_SOFTWARE`).
pub(crate) const INTERNAL: u8 = 70;
/// The output can't be written (`EX_IOERR`).
pub(crate) const OUTPUT: u8 = 74;
/// Another holder has the lock, or the command is not due (`EX_TEMPFAIL`), unless `--busy-status` says another.
pub(crate) const BUSY: u8 = 75;
/// The lock was lost (`EX_PROTOCOL`), unless `--lost-status` says another.
pub(crate) const LOST: u8 = 76;
/// The command is no program that can be executed, as in a shell.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// There is no such command, as in a shell.
pub(crate) const NO_COMMAND: u8 = 127;

/// Why a subcommand ends without doing what it should.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    /// One word for a program that reads `--json`.
    pub(crate) kind: &'static str,
    /// What went wrong and what to do; `None` if nobody reads the output any longer.
    pub(crate) message: Option<String>,
    /// The server may grant the lock later.
    pub(crate) passes: bool,
}

impl Failure {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, "usage", message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(INTERNAL, "internal", message)
    }

    pub(crate) fn new(status: u8, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: Some(message.into()),
            passes: false,
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        let (status, kind) = match &error {
            LockError::Config { .. } => (USAGE, "config"),
            LockError::InvalidKey { .. } => (USAGE, "invalid_key"),
            LockError::Busy { .. } => (BUSY, "busy"),
            LockError::NotDue { .. } => (BUSY, "not_due"),
            LockError::Lost { .. } => (LOST, "lost"),
            LockError::Unavailable { .. } => (UNAVAILABLE, "unavailable"),
            LockError::Refused { .. } => (UNAVAILABLE, "refused"),
            _ => (INTERNAL, "internal"),
        };
        let passes = match &error {
            // By a failover, until it is promoted again or its name leads to another server.
            LockError::Refused { reason, .. } if *reason == Refusal::ReadOnly => true,
            LockError::Unavailable { .. } | LockError::Refused { .. } => {
                error.retry_after().is_some()
            }
            _ => false,
        };
        let said = match &error {
            LockError::Unavailable {
                cause: UnavailableCause::Unreachable,
                server,
                ..
            } => {
                let server = server
                    .as_ref()
                    .map_or_else(String::new, |server| format!(" ({server})"));
                format!(
                    "the lock server can't be reached: check that it runs, its address (`--url` or DLOCK_URL), and the network{server}"
                )
            }
            LockError::Unavailable { cause, .. } => cause.to_string(),
            LockError::Config { why, .. } => why.to_string(),
            other => other.to_string(),
        };
        let message = match error.source() {
            Some(source) => format!("{said}: {source}"),
            None => said,
        };
        Self {
            passes,
            ..Self::new(status, kind, in_own_words(message))
        }
    }
}

/// What the library says to programmers, and what this command says instead.
const OWN_WORDS: [(&str, &str); 13] = [
    ("set `repair_missing_ttl`", "set DLOCK_REPAIR_MISSING_TTL"),
    (
        "by `min_replicas` or `min_aof`",
        "by DLOCK_MIN_REPLICAS or DLOCK_MIN_AOF",
    ),
    ("give the call a longer `wait`", "try again later"),
    (
        "with an error that dlock does not know; its words are the `source()`",
        "with an error that dlock does not know",
    ),
    (
        "the documentation of the crate `dlock-runtime` lists those that dlock needs, under Rights",
        "on Redis, `dlock check` lists those that are missing",
    ),
    ("`Config::without_scripts()`", "DLOCK_WITHOUT_SCRIPTS=true"),
    (
        "`Config::counter_per_slot()`",
        "DLOCK_COUNTER_PER_SLOT=true",
    ),
    ("`LockPool::check`", "`dlock check`"),
    ("with `counter_per_slot`", "with DLOCK_COUNTER_PER_SLOT"),
    (
        "or list with a pool for each shard",
        "or list each shard by its own address",
    ),
    ("longer `connect_timeout`", "longer DLOCK_CONNECT_TIMEOUT"),
    ("`once_per`", "`--once-per`"),
    ("`min_hold`", "`--min-hold`"),
];

pub(crate) fn in_own_words(mut message: String) -> String {
    for (theirs, ours) in OWN_WORDS {
        if message.contains(theirs) {
            message = message.replace(theirs, ours);
        }
    }
    message
}

/// What went wrong while the output was written.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                status: 0,
                kind: "closed",
                message: None,
                passes: false,
            };
        }
        let message = format!(
            "can't write to standard output: {error}; make room, or send the output elsewhere"
        );
        Self::new(OUTPUT, "output", message)
    }
}

#[cfg(test)]
mod tests {
    use super::{OWN_WORDS, in_own_words};
    use dlock_runtime::Refusal;

    #[test]
    fn each_of_the_librarys_words_is_still_its() {
        let refusals = [
            Refusal::NoTtl,
            Refusal::NotReplicated,
            Refusal::Loading,
            Refusal::Other,
            Refusal::NoPermission,
        ];
        let said = refusals.map(|refusal| refusal.to_string());
        for ((theirs, ours), said) in OWN_WORDS.iter().zip(&said) {
            assert!(said.contains(theirs), "{said}");
            let now = in_own_words(said.clone());
            assert!(now.contains(ours) && !now.contains(theirs), "{now}");
        }
    }
}
