//! The errors of one command, by what the caller must do next: retry, clean up, or report. This
//! module retries nothing itself.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::values::error::{LockError, Reason, Refusal, UnavailableCause};
use crate::values::key::Key;
use crate::values::shown::rounded;

/// A command that got no answer of its own.
#[derive(Clone, Debug)]
pub(crate) enum CommandError {
    /// Certainly not executed, now or later: try again.
    Unsent(Reason),
    /// The same, and another server has the lock: try again at once.
    Elsewhere(Reason),
    /// The same, while the lock is moving from one server to another.
    Moving(Reason),
    /// The same, and no server has the lock: none of a cluster's nodes serves its slot.
    Unserved(Reason),
    /// The same: the program's function gives no login, or one that the server refuses.
    NoLogin(Reason),
    /// May have been executed, or may yet be: clean up after it, and retry with a fresh token.
    Unclear(Reason),
    /// What this pool asked for before, or held, stands there yet: nothing more was sent.
    Unsettled(Reason),
    /// The server answered with an error; nothing was changed, unless it
    /// [leaves something open](Self::leaves_open).
    Refused(Refusal, Reason),
    /// Too few of several servers vote or answer. `is_open`: as for `Unclear`, else as for `Unsent`.
    TooFewNodes { why: Reason, is_open: bool },
    /// The setup is wrong: no retry can succeed.
    Setup(Reason),
}

impl CommandError {
    /// More than once, the server executed it after its time, and changed nothing.
    pub(crate) fn too_late() -> Self {
        let why = "the server executed it too late: it, the network or this program is slow, or its clock runs ahead by leaps";
        CommandError::Unsent(Reason::new(why))
    }

    /// `to`: a server, or nothing.
    pub(crate) fn not_connected(to: &str, within: Duration) -> Self {
        CommandError::Unsent(Reason::new(format_args!(
            "no connection{to} within {:?}: if it is only slow, set a longer `connect_timeout`",
            rounded(within)
        )))
    }

    /// Whether the cause may pass by itself, so that a waiter keeps waiting.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            CommandError::Unsent(_)
            | CommandError::Elsewhere(_)
            | CommandError::Moving(_)
            | CommandError::Unserved(_)
            | CommandError::NoLogin(_)
            | CommandError::Unsettled(_)
            | CommandError::Unclear(_)
            | CommandError::TooFewNodes { .. } => true,
            CommandError::Refused(reason, _) => reason.may_pass(),
            CommandError::Setup(_) => false,
        }
    }

    /// Its cause in words.
    pub(crate) fn reason(self) -> Reason {
        match self {
            CommandError::Unsent(why)
            | CommandError::Elsewhere(why)
            | CommandError::Moving(why)
            | CommandError::Unserved(why)
            | CommandError::NoLogin(why)
            | CommandError::Unsettled(why)
            | CommandError::Unclear(why)
            | CommandError::Refused(_, why)
            | CommandError::TooFewNodes { why, .. }
            | CommandError::Setup(why) => why,
        }
    }

    /// The same error, with more about its cause.
    pub(crate) fn explained(self, more: impl FnOnce(Reason) -> Reason) -> Self {
        match self {
            CommandError::Unsent(why) => CommandError::Unsent(more(why)),
            CommandError::Elsewhere(why) => CommandError::Elsewhere(more(why)),
            CommandError::Moving(why) => CommandError::Moving(more(why)),
            CommandError::Unserved(why) => CommandError::Unserved(more(why)),
            CommandError::NoLogin(why) => CommandError::NoLogin(more(why)),
            CommandError::Unsettled(why) => CommandError::Unsettled(more(why)),
            CommandError::Unclear(why) => CommandError::Unclear(more(why)),
            CommandError::Refused(refusal, why) => CommandError::Refused(refusal, more(why)),
            CommandError::TooFewNodes { why, is_open } => CommandError::TooFewNodes {
                why: more(why),
                is_open,
            },
            CommandError::Setup(why) => CommandError::Setup(more(why)),
        }
    }

    /// The same error, with the name of the server that it is about.
    pub(crate) fn at(self, server: impl fmt::Display) -> Self {
        self.explained(|why| Reason::new(format_args!("{server}: {why}")))
    }

    /// Whether an acquire that ended with this error may have created something. An unknown error
    /// text may come from a proxy that lost the answer, and what is wrong with another key than the
    /// lock's may show only when something was written.
    pub(crate) fn leaves_open(&self) -> bool {
        matches!(
            self,
            CommandError::Unclear(_)
                | CommandError::Refused(Refusal::Other | Refusal::Companion, _)
                | CommandError::TooFewNodes { is_open: true, .. }
        )
    }

    /// The error that the caller of a command about `key` sees.
    pub(crate) fn into_error(self, key: Option<&Key>) -> LockError {
        let key = key.cloned();
        let unavailable = |key, cause, source| LockError::Unavailable {
            key,
            cause,
            server: None,
            source,
        };
        match self {
            CommandError::Unsent(source) | CommandError::Unclear(source) => {
                unavailable(key, UnavailableCause::Unreachable, source)
            }
            CommandError::Elsewhere(source)
            | CommandError::Moving(source)
            | CommandError::Unserved(source) => {
                unavailable(key, UnavailableCause::NotServed, source)
            }
            CommandError::NoLogin(source) => unavailable(key, UnavailableCause::Login, source),
            CommandError::Unsettled(source) => {
                unavailable(key, UnavailableCause::Unsettled, source)
            }
            CommandError::TooFewNodes { why, .. } => {
                unavailable(key, UnavailableCause::TooFewNodes, why)
            }
            CommandError::Refused(reason, source) => LockError::Refused {
                key,
                reason,
                source,
            },
            CommandError::Setup(why) => LockError::Config { why },
        }
    }
}

/// For the log.
impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Unsent(why)
            | CommandError::Elsewhere(why)
            | CommandError::Moving(why)
            | CommandError::Unserved(why)
            | CommandError::NoLogin(why)
            | CommandError::Unsettled(why)
            | CommandError::Unclear(why)
            | CommandError::TooFewNodes { why, .. }
            | CommandError::Setup(why) => why.fmt(f),
            CommandError::Refused(reason, why) => write!(f, "{reason}: {why}"),
        }
    }
}

/// Runs code that panics in a tokio runtime that has ended, or has no timers or I/O, and turns that
/// panic into an error that says so. Tokio offers no way to ask. Any other panic goes on.
pub(crate) fn needs_drivers<T>(use_drivers: impl FnOnce() -> T) -> Result<T, CommandError> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(use_drivers)).map_err(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied());
        if !words.is_some_and(|words| words.contains("Tokio 1.x context was found, but")) {
            std::panic::resume_unwind(panic);
        }
        CommandError::Setup(Reason::new(
            "this tokio runtime has ended, or has no timer or no I/O: build it with `enable_all()`",
        ))
    })
}

/// The current tokio runtime.
pub(crate) fn current_runtime() -> Result<Handle, CommandError> {
    Handle::try_current().map_err(|_| {
        CommandError::Setup(Reason::new(
            "no tokio runtime here: call dlock from a task of a tokio runtime that was built with `enable_all()`",
        ))
    })
}

/// The current tokio runtime, once it is known to have timers.
pub(crate) fn runtime_with_timers() -> Result<Handle, CommandError> {
    thread_local! {
        /// The runtime that had timers when this thread last checked.
        static HAS_TIMERS: Cell<Option<Id>> = const { Cell::new(None) };
    }
    let here = current_runtime()?;
    if HAS_TIMERS.get() != Some(here.id()) {
        needs_drivers(|| drop(tokio::time::sleep(Duration::ZERO)))?;
        HAS_TIMERS.set(Some(here.id()));
    }
    Ok(here)
}
