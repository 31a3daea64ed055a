//! Who holds a lock, read from the description in an entry (`entry`).
//!
//! `<host>|<pid>|<function>|<since ms>`. Nothing is decided by it: it is for people. Invariant:
//! reading never shows a token.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::about::name;
use super::entry::{self, Entry};
use super::token::Token;

/// The holder of a lock, as far as its value shows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holder {
    /// A process that uses dlock.
    Process(Process),
    /// A program that follows the same convention (`SET key token NX PX …`) but does not describe
    /// itself: redis-py, redsync, node-redlock, a script.
    Foreign,
    /// Nobody at this moment: with a quorum, a free lock is reserved for a short time for a writer
    /// that readers kept out, and a reader asked meanwhile.
    WaitingWriter,
    /// Nobody, but a transaction that checked the lock
    /// ([`LockGuard::sql_check`](crate::LockGuard::sql_check)) is still open, and nobody is granted the
    /// lock before it ends. [`LockReport::kept_by`](crate::LockReport::kept_by) names it.
    OpenTransaction,
}

/// A process that uses dlock, as it described itself when it took the lock.
///
/// Any client that may write to the server can describe itself as it likes. So both names are made
/// printable: at most 255 bytes, and invisible characters (control characters, line separators,
/// right-to-left marks) are escaped as in Rust, `\u{1b}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process(Arc<Description>);

#[derive(Debug, PartialEq, Eq)]
struct Description {
    host: String,
    pid: u32,
    function: String,
    since: SystemTime,
    is_this_process: bool,
    has_ended: bool,
}

impl Process {
    /// Returns the host's name, or the name set with
    /// [`Config::holder_name`](crate::Config::holder_name).
    #[must_use]
    pub fn host(&self) -> &str {
        &self.0.host
    }

    /// Returns the process id on that host.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    /// Returns the annotated function (`shop::purchase`), or the `file:line` of a
    /// [`LockPool::lock`](crate::LockPool::lock).
    ///
    /// If several tasks of the process waited, this is the one for which the process entered the
    /// queue.
    #[must_use]
    pub fn function(&self) -> &str {
        &self.0.function
    }

    /// Returns when the process requested the lock, by its own wall clock; if it waited for the
    /// lock, when the wait began.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        self.0.since
    }

    /// Returns whether it is the calling process.
    #[must_use]
    pub fn is_this_process(&self) -> bool {
        self.0.is_this_process
    }

    /// Returns whether it is done, so that the key is only kept for the rest of its
    /// [`min_hold`](crate::LockRequest::min_hold).
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.has_ended
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Holder::Process(Process(it)) => {
                match (it.has_ended, it.pid) {
                    (false, _) => {}
                    // What all kept entries of an owner say.
                    (true, 0) => return f.write_str("nobody, but kept by `min_hold`"),
                    (true, _) => f.write_str("nobody, but kept for the `min_hold` of ")?,
                }
                if it.is_this_process {
                    write!(f, "{} of this process", it.function)
                } else {
                    write!(f, "{} of process {} on {}", it.function, it.pid, it.host)
                }
            }
            Holder::Foreign => f.write_str("a program that does not use dlock"),
            Holder::WaitingWriter => f.write_str("nobody, but a writer has waited for it"),
            Holder::OpenTransaction => f.write_str(
                "nobody, but it is kept by an open transaction of its database, which `dlock show` names",
            ),
        }
    }
}

/// What a lock's value says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    Holder(Holder),
    /// Written by a dlock of another layout: its rules are not known.
    UnknownLayout,
}

/// Reads the value at a lock's key.
pub(crate) fn read(value: &str) -> Reading {
    if value == entry::KEPT {
        return Reading::Holder(Holder::OpenTransaction);
    }
    if entry::is_other_layout(value) {
        return Reading::UnknownLayout;
    }
    Reading::Holder(
        parse(value).map_or(Holder::Foreign, |it| Holder::Process(Process(Arc::new(it)))),
    )
}

/// The token in an entry, as text.
pub(crate) fn token_in(value: &str) -> Option<&str> {
    entry::read(value).map(|entry| entry.token)
}

fn parse(value: &str) -> Option<Description> {
    let Entry {
        token, description, ..
    } = entry::read(value)?;
    let mut fields = description.split('|'); // later versions may have more
    let (host, pid) = (name(fields.next()?)?, fields.next()?.parse().ok()?);
    let (function, since) = (name(fields.next()?)?, fields.next()?.parse().ok()?);
    Some(Description {
        host,
        pid,
        function,
        since: UNIX_EPOCH.checked_add(Duration::from_millis(since))?,
        is_this_process: Token::is_of_this_process(token.trim_start_matches('-')),
        has_ended: entry::is_retired(value),
    })
}
