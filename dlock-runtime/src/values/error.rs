//! The one error type: what failed, for which key, and what the reader can do about it.
//!
//! Plain data: `link::command_error` decides which failure becomes which error. Invariants: no
//! variant shows a `redis` type, a token or a URL; a variant's text never repeats its `source()`.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::holder::Holder;
use super::key::{InvalidKey, Key};
use super::shown::{KEY_AT_MOST, TEXT_AT_MOST, quoted, shown, to_be_shown};

/// Why a lock could not be taken or kept.
///
/// The body of a locked function runs only after its lock was taken. Of the attribute's own errors,
/// only [`LockError::Lost`] comes after the body began.
///
/// `Display` says what to do, [`source()`](std::error::Error::source) what the server or the
/// connection reported: print both. `Debug`, which `unwrap` and a failing `main` print, has both in
/// one line, after the variant's name. For a web handler: [`is_busy`](Self::is_busy) is a 409,
/// [`LockError::InvalidKey`] from a user's value a 400, an error with a
/// [`retry_after`](Self::retry_after) a 503 with that header, and the rest a 500. The texts name
/// keys and hosts: they are for the log, not for the client.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// A locked function was called before [`init`](crate::init), outside any
    /// [`scope`](crate::LockPool::scope).
    #[error(
        "dlock has no pool yet: call `dlock_runtime::init(\"redis://127.0.0.1:6379\").await?` in main, before the first locked function (if that call failed, there is no pool: call it again); in a test, `pool.scope(…)` around what calls it, and around each task that is spawned"
    )]
    NotInitialized,

    /// A setting, URL or runtime that can't work; nothing was sent.
    #[error("dlock can't work as configured: {why}")]
    #[non_exhaustive]
    Config {
        /// What can't work, and what to change.
        why: Reason,
    },

    /// The key can't name a lock; nothing was sent.
    #[error("{} can't be a lock's key: {why}", quoted(.key.bare(), KEY_AT_MOST))]
    #[non_exhaustive]
    InvalidKey {
        /// The key as it was given.
        key: Key,
        /// Which rule it breaks, and what to write instead.
        why: Reason,
    },

    /// Another holder kept the lock for as long as the caller was willing to wait.
    #[error("{key} is busy: held by {holder} (waited {waited:.0?})")]
    #[non_exhaustive]
    Busy {
        /// The lock.
        key: Key,
        /// How long this call waited.
        waited: Duration,
        /// The last known holder.
        holder: Holder,
        /// How long that holder's lease had left, when last seen.
        left: Duration,
    },

    /// A scope around this call holds the key, so waiting would never end; or, in a pool with
    /// [`LockOrder::Refuse`](crate::LockOrder::Refuse), the lock is requested in an order that can
    /// deadlock.
    #[error("{key} {}", match (.inversion, .enclosing) {
        (Some(inversion), _) => format!("is asked for in an order that can deadlock, so take locks in one order everywhere: {inversion}"),
        (None, Some(enclosing)) => format!("is already held around this call {enclosing}"),
        (None, None) => "is already held around this call, so waiting for it would never end".to_owned(),
    })]
    #[non_exhaustive]
    WouldDeadlock {
        /// The lock.
        key: Key,
        /// Both orders, with their places in the program; `None` if the key itself is held.
        inversion: Option<Reason>,
        /// If the key itself is held: by which function, and what to write instead.
        enclosing: Option<Reason>,
    },

    /// The lease ended while the body ran, or before a call of its guard that needs it.
    #[error("{key} {} lost ({}): {}", if *.cause == LostCause::Unclear { "may have been" } else { "was" }, cause.of_lease(*.renewed), match (*.finished, .source.is_some()) {
        (true, false) => "the body ended after its lease and its value was dropped; treat what it wrote as unprotected",
        (true, true) => "treat what was written under it as unprotected; the value of its body, if it had one, was dropped",
        (false, false) => "the body was stopped; what it did before that stands",
        (false, true) => "what was done before that stands",
    })]
    #[non_exhaustive]
    Lost {
        /// The lock.
        key: Key,
        /// How the lease ended.
        cause: LostCause,
        /// Whether the lease was renewed.
        renewed: bool,
        /// Whether the body ran to its end, too late.
        finished: bool,
        /// From a call of the guard or a strict release: what became of that call. Then the error that
        /// the body of an annotated function returned, whose place this one takes.
        source: Option<Reason>,
    },

    /// The server did not execute the call for as long as the caller was willing to wait.
    #[error("{}{}: {}{}; {}", cause.as_text(), at(.key.as_ref()), cause.advice(), .server.as_ref().map_or_else(String::new, |it| format!(" ({it})")), match .key {
        Some(_) => "the call may be repeated",
        None => "nothing goes on trying, so make this call again; `init` of a pool with `Config::lazy` succeeds all the same, and each of its locks tries",
    })]
    #[non_exhaustive]
    Unavailable {
        /// The lock, if the call was about one.
        key: Option<Key>,
        /// What kept it from being executed.
        cause: UnavailableCause,
        /// The address that the pool was given, without a login.
        server: Option<Reason>,
        /// What went wrong on the connection, or what a node of a cluster said; of several servers,
        /// which of them vote, and when.
        source: Reason,
    },

    /// The server answered, and refused.
    #[error("the server refused{}: {reason}", match .key {
        Some(key) if reason.is_about_value() => format!(" ({key}, stored as {})", stored_name(key)),
        key => at(key.as_ref()),
    })]
    #[non_exhaustive]
    Refused {
        /// The lock, if the call was about one.
        key: Option<Key>,
        /// Why, and what to do.
        reason: Refusal,
        /// The server's own words.
        source: Reason,
    },

    /// The pool has been shut down and takes no new locks.
    #[error(
        "dlock has been shut down and takes no new locks: stop taking requests before `shutdown()`"
    )]
    ShutDown,
}

fn at(key: Option<&Key>) -> String {
    key.map_or_else(String::new, |key| format!(" ({key})"))
}

/// The name that other programs, such as `redis-cli`, know.
fn stored_name(key: &Key) -> Cow<'_, str> {
    shown(key.as_str(), TEXT_AT_MOST)
}

/// `unwrap` and a failing `main` print this, so it is written for people: the words contain the
/// fields.
impl fmt::Debug for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variant = match self {
            LockError::NotInitialized => "NotInitialized",
            LockError::Config { .. } => "Config",
            LockError::InvalidKey { .. } => "InvalidKey",
            LockError::Busy { .. } => "Busy",
            LockError::WouldDeadlock { .. } => "WouldDeadlock",
            LockError::Lost { .. } => "Lost",
            LockError::Unavailable { .. } => "Unavailable",
            LockError::Refused { .. } => "Refused",
            LockError::ShutDown => "ShutDown",
        };
        write!(f, "{variant}: {self}")?;
        match self.source() {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl From<InvalidKey> for LockError {
    fn from(InvalidKey { key, why }: InvalidKey) -> Self {
        LockError::invalid_key(key, why)
    }
}

impl LockError {
    pub(crate) fn config(why: impl fmt::Display) -> Self {
        LockError::Config {
            why: Reason::new(why),
        }
    }

    pub(crate) fn invalid_key(key: Key, why: impl fmt::Display) -> Self {
        LockError::InvalidKey {
            key,
            why: Reason::new(why),
        }
    }

    /// A loss that takes the place of the error that the body returned.
    pub(crate) fn hiding(mut self, of_body: &Reason) -> Self {
        if let LockError::Lost { source, .. } = &mut self {
            let before = source.take().map(|it| format!("{it}; "));
            let before = before.unwrap_or_default();
            *source = Some(Reason::new(format_args!(
                "{before}the body had failed: {of_body}"
            )));
        }
        self
    }

    /// The same error, of a pool with this address.
    pub(crate) fn at(mut self, address: impl fmt::Display) -> Self {
        if let LockError::Unavailable { server, .. } = &mut self {
            *server = Some(Reason::new(address));
        }
        self
    }

    /// The lock that this is about.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            LockError::InvalidKey { key, .. }
            | LockError::Busy { key, .. }
            | LockError::WouldDeadlock { key, .. }
            | LockError::Lost { key, .. } => Some(key),
            LockError::Unavailable { key, .. } | LockError::Refused { key, .. } => key.as_ref(),
            LockError::NotInitialized | LockError::Config { .. } | LockError::ShutDown => None,
        }
    }

    /// Whether another holder has the lock: the caller may come back, nothing is broken.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, LockError::Busy { .. })
    }

    /// Whether the lock was taken and lost: the body began, and part of its work may be done.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LockError::Lost { .. })
    }

    /// When it makes sense to try again; `None` if only after a change.
    ///
    /// Whole seconds, rounded up, so that it can be sent as `Retry-After`. For `Busy` it is the
    /// time left of the holder's lease, when the key is free even if the holder crashed; a holder
    /// that lives often needs far less.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        const SOON: Duration = Duration::from_secs(1);
        match self {
            LockError::Busy { left, .. } => {
                let begun = u64::from(left.subsec_nanos() > 0);
                Some(Duration::from_secs(left.as_secs() + begun).max(SOON))
            }
            LockError::Lost { .. } | LockError::Unavailable { .. } | LockError::ShutDown => {
                Some(SOON)
            }
            LockError::Refused { reason, .. } => reason.may_pass().then_some(SOON),
            _ => None,
        }
    }
}

/// A cause in words: what the server or the connection reported, without secrets.
///
/// On one line and printable: control and other invisible characters are escaped, and a text that
/// is too long is cut.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason(Arc<str>);

impl Reason {
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Self(to_be_shown(text.to_string(), TEXT_AT_MOST).into())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for Reason {}

/// How a lease ended under its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostCause {
    /// Its time ran out: the ttl was too short for the body, or the server could not be reached to
    /// renew it, or refused to. Also after the process was suspended.
    Deadline,
    /// It was renewed, and the nodes answered, but until its time ran out too few of [several
    /// servers](crate::Config::redlock) had it: some were down, had lost it, or could not vote for it
    /// again.
    TooFewNodes,
    /// The server says that the key is gone or has another holder: it was deleted, flushed or
    /// evicted, or the server lost its data. Of [several servers](crate::Config::redlock): so many say
    /// so that no quorum has it.
    Gone,
    /// It was held for as long as its `max_hold` allows, and was given up then.
    MaxHold,
    /// Its `max_renewals` were used up, and its lease ran out.
    MaxRenewals,
    /// dlock's own watchdog ended (a bug, or its runtime was dropped), so nothing would renew or
    /// watch the lease.
    Watchdog,
    /// Unknown whether the lease was lost: a [`Release::Strict`](crate::Release::Strict) release
    /// got no clear answer. It is repeated in the background.
    Unclear,
    /// This process was forked from the one that took the lock; the lock stays the parent's.
    Forked,
}

impl LostCause {
    /// As a label: `deadline`, `too_few_nodes`, `gone`, `max_hold`, `max_renewals`, `watchdog`, `unclear`, `forked`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LostCause::Deadline => "deadline",
            LostCause::TooFewNodes => "too_few_nodes",
            LostCause::Gone => "gone",
            LostCause::MaxHold => "max_hold",
            LostCause::MaxRenewals => "max_renewals",
            LostCause::Watchdog => "watchdog",
            LostCause::Unclear => "unclear",
            LostCause::Forked => "forked",
        }
    }

    /// The cause in words, given whether the lease was renewed.
    pub(crate) fn of_lease(self, renewed: bool) -> String {
        match (self, renewed) {
            (LostCause::Deadline, true) => {
                "its lease ran out although it was renewed: the server could not be reached in time or refused to renew it, or this process stood still".to_owned()
            }
            (LostCause::Deadline, false) => {
                "its lease ran out: its `ttl` is too short for the body, so raise it or add `renew`; or this process stood still".to_owned()
            }
            (cause, _) => cause.to_string(),
        }
    }
}

impl fmt::Display for LostCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostCause::Deadline => {
                "its lease ran out: without `renew` its `ttl` is too short for the body; with it, the server could not be reached in time or refused to renew it, or this process stood still"
            }
            LostCause::TooFewNodes => {
                "its lease ran out although it was renewed: too few of its nodes had it, because the others were down, had lost it, or could not vote for it again"
            }
            LostCause::Gone => {
                "the server no longer has it: deleted, flushed, evicted, taken over, or lost by its restart or failover"
            }
            LostCause::MaxHold => {
                "it was held for as long as its `max_hold` allows; raise that if the body may take longer"
            }
            LostCause::MaxRenewals => {
                "its `max_renewals` were used up; raise that, or the ttl, if the body may take longer"
            }
            LostCause::Watchdog => "the watchdog that watched over it ended",
            LostCause::Unclear => {
                "its release got no clear answer, so it is not known whether it was held to the end"
            }
            LostCause::Forked => "it was taken before a fork, and is the parent process's",
        })
    }
}

/// What kept a server from executing a call that may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnavailableCause {
    /// It could not be reached, or did not answer.
    Unreachable,
    /// Too few of [several servers](crate::Config::redlock) vote or answer, perhaps because they
    /// were started a short time ago, or their votes were split.
    TooFewNodes,
    /// The nodes of a cluster answer, and none executes a command about this key: its slot is being
    /// moved, its primary replaced, or nobody serves it.
    NotServed,
    /// An earlier attempt of this pool, or a hold that has ended, stands there, and the server has
    /// not yet said what became of it.
    Unsettled,
}

impl UnavailableCause {
    fn as_text(self) -> &'static str {
        match self {
            UnavailableCause::Unreachable => "redis can't be reached",
            UnavailableCause::TooFewNodes => "too few nodes vote",
            UnavailableCause::NotServed => "the cluster does not serve this now",
            UnavailableCause::Unsettled => "an earlier attempt of this process is not settled",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            UnavailableCause::Unreachable => "check that it runs, its address, and the network",
            UnavailableCause::TooFewNodes => {
                "wait for those that do not vote yet, and bring back those that are away"
            }
            UnavailableCause::NotServed => {
                "wait while a slot is moved or a primary replaced; else `redis-cli --cluster check` says what is wrong"
            }
            UnavailableCause::Unsettled => "ask again; it is cleaned up, or ends with its lease",
        }
    }
}

impl fmt::Display for UnavailableCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.as_text(), self.advice())
    }
}

/// Why a server refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// A replica, or a demoted master.
    ReadOnly,
    /// `maxmemory` is reached. Renewals and releases still work.
    OutOfMemory,
    /// The ACL user lacks a right.
    NoPermission,
    /// Wrong or missing password, or an unknown user.
    Auth,
    /// The same at the sentinels, which have a login of their own.
    SentinelAuth,
    /// TLS: one side has no certificate that the other accepts. The source says which side and why.
    Certificate,
    /// TLS: the two sides can't speak it with each other, as on a port without TLS.
    Tls,
    /// A value of another type stands at the key.
    WrongType,
    /// One of the keys that dlock keeps beside its locks (the counter of fencing tokens, a queue,
    /// its heartbeats) holds what dlock did not write. The source names that key.
    Companion,
    /// The key is held or waited for as another kind of lock (by a reader, for example, where
    /// this one is exclusive). The source names that kind.
    WrongKind,
    /// A value without a time to live stands at the key, which would never be free.
    NoTtl,
    /// A slow script keeps the server busy.
    Busy,
    /// The server is still loading its data.
    Loading,
    /// The entry at the key has a layout that this version of dlock does not know.
    Layout,
    /// The server can't write to its disk or to enough replicas.
    Misconfigured,
    /// Fewer replicas, or append-only files, confirmed the lease than
    /// [`min_replicas`](crate::Config::min_replicas) or [`min_aof`](crate::Config::min_aof) ask
    /// for; it was released.
    NotReplicated,
    /// `maxclients` is reached.
    TooManyClients,
    /// A node of a cluster, which did not execute the command, because another node has the key
    /// (`MOVED`, `ASK`), the key is being moved (`TRYAGAIN`), or none serves it (`CLUSTERDOWN`).
    Cluster,
    /// Anything else; the server's words are the error's source.
    Other,
}

impl Refusal {
    /// Whether what stands at the key is in the way, so that the reader needs its name on the server.
    fn is_about_value(self) -> bool {
        matches!(
            self,
            Refusal::WrongType | Refusal::WrongKind | Refusal::NoTtl | Refusal::Layout
        )
    }

    /// Whether it ends by itself, so that waiting makes sense.
    pub(crate) fn may_pass(self) -> bool {
        matches!(
            self,
            Refusal::Busy | Refusal::Loading | Refusal::TooManyClients | Refusal::NotReplicated
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::ReadOnly => "it is a read-only replica; give dlock the master's address",
            Refusal::OutOfMemory => "it is out of memory; raise `maxmemory` or free some (leases that are held go on)",
            Refusal::NoPermission => "this user lacks a right; https://docs.rs/dlock-runtime/latest/dlock_runtime/#rights lists the commands, keys and channels that dlock needs",
            Refusal::Auth => "wrong or missing password, or no such user; check the URL's credentials, which stand before the host: `:password@` or `user:password@`",
            Refusal::SentinelAuth => "the sentinels want another login than they were given; give theirs as `sentinel_user` and `sentinel_pass` in the URL, whose `user:password@` is the master's",
            Refusal::Certificate => "TLS: a certificate is missing or not accepted; see the source for which and what to do",
            Refusal::Tls => "TLS: the two sides can't speak it with each other; check the URL's scheme and port",
            Refusal::WrongType => "a value of another type stands at this key; find who writes it, or choose another key or namespace",
            Refusal::Companion => "one of the keys that dlock keeps beside its locks holds what dlock did not write; see the source for which, find who writes it, and delete it",
            Refusal::WrongKind => "this key is in use as another kind of lock; use one kind for a key, in the whole fleet",
            Refusal::NoTtl => "a value without a time to live stands at this key and would block it for ever; delete it, or set `repair_missing_ttl`",
            Refusal::Busy => "a script of somebody else's keeps it busy; find it, or `SCRIPT KILL`",
            Refusal::Loading => "it is still loading its data; wait, or give the call a longer `wait`",
            Refusal::Layout => "this key was written by another version of dlock; run one version in the whole fleet",
            Refusal::Misconfigured => "it can't persist or replicate writes; see its log",
            Refusal::NotReplicated => "too few of its replicas confirmed the lock in time; bring them back, or ask for fewer by `min_replicas` or `min_aof`",
            Refusal::TooManyClients => "its `maxclients` is reached; raise it, or find who keeps so many connections",
            Refusal::Cluster => "it is a node of a cluster, and this key is elsewhere in it; write `redis+cluster://` (with TLS `rediss+cluster://`) into the URL",
            Refusal::Other => "with an error that dlock does not know; its words are the `source()`",
        })
    }
}
