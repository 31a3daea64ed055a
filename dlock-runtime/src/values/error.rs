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
use super::record::LastRun;
use super::shown::{KEY_AT_MOST, TEXT_AT_MOST, quoted, shown, to_be_shown};

/// The error of dlock: why a lock could not be taken or kept.
///
/// The body of a locked function runs only after its lock was taken. Of the errors that the
/// attribute returns, only [`LockError::Lost`] can occur once the body has started.
///
/// [`Display`](fmt::Display) says what to do, [`source()`](std::error::Error::source) what the
/// server or the connection reported: print both. `Debug`, which `unwrap` and a failing `main`
/// print, has both in one line, after the variant's name. A web handler answers with
/// [`http_status`](Self::http_status) and [`retry_after`](Self::retry_after). The texts name keys
/// and hosts: they are for the log, not for the client.
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

    /// The job runs once per period, and was run within it; the lock was not taken.
    #[error("{key} is not due: {last_run}")]
    #[non_exhaustive]
    NotDue {
        /// The lock.
        key: Key,
        /// Who ran it, when, and when it may run again.
        last_run: Box<LastRun>,
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
        /// For a call of the guard or a strict release, the outcome of that call. After it, the
        /// error that the body of an annotated function returned, which this error replaces.
        source: Option<Reason>,
    },

    /// The server did not execute the call for as long as the caller was willing to wait.
    #[error("{}{}: {}{}; {}", cause.as_text(), at(.key.as_ref()), cause.advice(), .server.as_ref().map_or_else(String::new, |it| format!(" ({it})")), match .key {
        Some(_) => "the call may be repeated",
        None => "nothing is retried in the background: make this call again, or use `Config::lazy`, with which `init` succeeds and each lock connects",
    })]
    #[non_exhaustive]
    Unavailable {
        /// The lock, if the call was about one.
        key: Option<Key>,
        /// What kept it from being executed.
        cause: UnavailableCause,
        /// The address that the pool was given, without a login.
        server: Option<Reason>,
        /// What went wrong on the connection, or what a node of a cluster answered; with several
        /// servers, which of them vote, and when the others will.
        source: Reason,
    },

    /// The server answered, and refused.
    #[error("the server refused{}: {}", match .key {
        Some(key) if reason.is_about_value() => format!(" ({key}, stored as {})", stored_name(key)),
        key => at(key.as_ref()),
    }, reason.as_said_by(.source))]
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

/// Rounded up.
fn whole_seconds(time: Duration) -> Duration {
    Duration::from_secs(time.as_secs() + u64::from(time.subsec_nanos() > 0))
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
            LockError::NotDue { .. } => "NotDue",
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

    /// Returns the key of the lock that the error is about.
    #[must_use]
    pub fn key(&self) -> Option<&Key> {
        match self {
            LockError::InvalidKey { key, .. }
            | LockError::Busy { key, .. }
            | LockError::NotDue { key, .. }
            | LockError::WouldDeadlock { key, .. }
            | LockError::Lost { key, .. } => Some(key),
            LockError::Unavailable { key, .. } | LockError::Refused { key, .. } => key.as_ref(),
            LockError::NotInitialized | LockError::Config { .. } | LockError::ShutDown => None,
        }
    }

    /// Returns whether another holder has the lock: the caller may try again later, nothing is
    /// broken.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        matches!(self, LockError::Busy { .. })
    }

    /// Returns whether the job was run within its period, so that the call did not run it: nothing is
    /// broken.
    #[must_use]
    pub fn is_not_due(&self) -> bool {
        matches!(self, LockError::NotDue { .. })
    }

    /// Whether a call that skips does not run its body, and that is all.
    pub(crate) fn is_skipped(&self) -> bool {
        self.is_busy() || self.is_not_due()
    }

    /// Returns whether the lock was taken and lost: the body began, and part of its work may be
    /// done.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(self, LockError::Lost { .. })
    }

    /// Returns the HTTP status for a web handler that answers with this error.
    ///
    /// | error | status | [`retry_after`](Self::retry_after) |
    /// | --- | --- | --- |
    /// | [`Busy`](Self::Busy) | 409 | the rest of the holder's lease |
    /// | [`NotDue`](Self::NotDue) | 409 | until it may run again |
    /// | [`InvalidKey`](Self::InvalidKey) | 400 | none |
    /// | [`Lost`](Self::Lost), [`Unavailable`](Self::Unavailable), [`ShutDown`](Self::ShutDown) | 503 | 1 s |
    /// | [`Refused`](Self::Refused) for a reason that may pass | 503 | 1 s |
    /// | `Refused` for any other reason | 500 | none |
    /// | [`NotInitialized`](Self::NotInitialized), [`Config`](Self::Config), [`WouldDeadlock`](Self::WouldDeadlock) | 500 | none |
    ///
    /// `Busy` is 409 because it concerns one resource, while the service itself works. With the
    /// feature `axum` the error is a response with this status.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{LockPool, Wait};
    ///
    /// let pool = LockPool::connect("memory://").await?;
    /// let _held = pool.lock("item:7").acquire().await?;
    /// let busy = pool.lock("item:7").wait(Wait::Once).acquire().await.unwrap_err();
    /// assert_eq!(busy.http_status(), 409);
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn http_status(&self) -> u16 {
        self.for_http().0
    }

    /// Returns how long to wait before another try; `None` if trying again is useless until
    /// something changes.
    ///
    /// The time is in whole seconds, rounded up, so that it can be sent as `Retry-After`. For
    /// `Busy` it is the rest of the holder's lease, after which the key is free even if the holder
    /// crashed; a live holder often needs far less. After `Lost`, and after an error of a guard's
    /// call or of a second lock inside a body, a part of the work may have been done: send
    /// `Retry-After` only if repeating it does no harm.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.for_http().1
    }

    /// The status, and when to try again.
    fn for_http(&self) -> (u16, Option<Duration>) {
        const SOON: Duration = Duration::from_secs(1);
        match self {
            LockError::Busy { left, .. } => (409, Some(whole_seconds(*left).max(SOON))),
            LockError::NotDue { last_run, .. } => {
                (409, Some(whole_seconds(last_run.due_in()).max(SOON)))
            }
            LockError::InvalidKey { .. } => (400, None),
            LockError::Lost { .. } | LockError::Unavailable { .. } | LockError::ShutDown => {
                (503, Some(SOON))
            }
            LockError::Refused { reason, .. } if reason.may_pass() => (503, Some(SOON)),
            LockError::Refused { .. }
            | LockError::NotInitialized
            | LockError::Config { .. }
            | LockError::WouldDeadlock { .. } => (500, None),
        }
    }
}

/// A reason in words: what the server or the connection reported, without secrets.
///
/// The text is on one line and printable: control characters and other invisible ones are escaped,
/// and a text that is too long is cut.
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

/// The cause of a lost lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostCause {
    /// The lease ran out: the ttl was too short for the body, the server could not be reached to
    /// renew it or refused to, or the process was suspended.
    Deadline,
    /// The lease was renewed, and nodes answered, but too few of [several
    /// servers](crate::Config::redlock) had it when it ran out: some were down, had lost it, or
    /// could not vote for it again.
    TooFewNodes,
    /// The server reports that the key no longer exists or has another holder: it was deleted,
    /// flushed or evicted, or the server lost its data. With [several
    /// servers](crate::Config::redlock), so many report it that no quorum has the lock.
    Gone,
    /// The lock was held for as long as its [`max_hold`](crate::LockRequest::max_hold) allows, and
    /// was then given up.
    MaxHold,
    /// The lock's [`max_renewals`](crate::LockRequest::max_renewals) were used up, and its lease
    /// ran out.
    MaxRenewals,
    /// dlock's own watchdog ended (a bug; or, with `memory://`, the call's runtime was dropped), so
    /// nothing would renew or watch the lease.
    Watchdog,
    /// Unknown whether the lease was lost: a [`Release::Strict`](crate::Release::Strict) release
    /// got no clear answer. It is repeated in the background.
    Unclear,
    /// This process was forked from the one that took the lock; the lock stays the parent's.
    Forked,
    /// The pool was shut down, and the body had not ended within
    /// [`shutdown_grace`](crate::Config::shutdown_grace): it was stopped, and its lock released.
    ShutDown,
}

impl LostCause {
    /// Returns the cause as a label: `deadline`, `too_few_nodes`, `gone`, `max_hold`,
    /// `max_renewals`, `watchdog`, `unclear`, `forked`, `shut_down`.
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
            LostCause::ShutDown => "shut_down",
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
            LostCause::ShutDown => {
                "its pool was shut down, and the body had not ended within `shutdown_grace`, after which its lock is released"
            }
        })
    }
}

/// The cause that kept a server from executing a call, which may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnavailableCause {
    /// The server could not be reached, or did not answer.
    Unreachable,
    /// Too few of [several servers](crate::Config::redlock) vote or answer, perhaps because they
    /// started a short time ago, or their votes were split.
    TooFewNodes,
    /// The nodes of a cluster answer, but none of them executes a command about this key: its slot
    /// is being moved, its primary replaced, or no node serves it.
    NotServed,
    /// The provider of [`Config::credentials`](crate::Config::credentials) failed, or the server
    /// refuses the login that it gave; it is asked again.
    Login,
    /// An earlier attempt of this pool, or a hold that has ended, may still be stored at the key:
    /// the server has not yet reported its outcome.
    Unsettled,
}

impl UnavailableCause {
    fn as_text(self) -> &'static str {
        match self {
            UnavailableCause::Unreachable => "the lock server can't be reached",
            UnavailableCause::TooFewNodes => "too few nodes vote",
            UnavailableCause::NotServed => "the cluster does not serve this now",
            UnavailableCause::Login => "the login at redis failed",
            UnavailableCause::Unsettled => "an earlier attempt of this process is not settled",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            UnavailableCause::Unreachable => "check that it runs, its address, and the network",
            UnavailableCause::TooFewNodes => {
                "wait for those that do not vote yet, and bring back those that are unreachable"
            }
            UnavailableCause::NotServed => {
                "wait while a slot is moved or a primary replaced; otherwise `redis-cli --cluster check` says what is wrong"
            }
            UnavailableCause::Login => {
                "check the user and the password that the provider of `Config::credentials` gives, and that it gives them in time"
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

/// The reason of a server's refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// The server is a replica, or a demoted master.
    ReadOnly,
    /// The server's `maxmemory` is reached. Renewals and releases still work.
    OutOfMemory,
    /// The ACL user lacks a right.
    NoPermission,
    /// The password is wrong or missing, or the user unknown.
    Auth,
    /// The same as [`Auth`](Self::Auth) at the sentinels, which have a login of their own.
    SentinelAuth,
    /// TLS: one side has no certificate that the other one accepts. The source says which side, and
    /// why.
    Certificate,
    /// TLS: the two sides can't speak it with each other, for example on a port without TLS.
    Tls,
    /// The key holds a value of another type.
    WrongType,
    /// One of the keys that dlock keeps beside its locks (the counter of fencing tokens, a queue,
    /// its heartbeats) holds data that dlock did not write. The source names that key.
    Companion,
    /// The key is held or waited for as another kind of lock (by a reader, for example, where
    /// this one is exclusive). The source names that kind.
    WrongKind,
    /// The key holds a value without a time to live, and would never be free.
    NoTtl,
    /// A slow script of some client keeps the server busy.
    Busy,
    /// The server is still loading its data.
    Loading,
    /// The key's entry has a layout that this version of dlock does not know.
    Layout,
    /// The server can't write to its disk or to enough replicas.
    Misconfigured,
    /// Fewer replicas, or append-only files, confirmed the lease than
    /// [`min_replicas`](crate::Config::min_replicas) or [`min_aof`](crate::Config::min_aof) ask
    /// for; it was released.
    NotReplicated,
    /// The server's `maxclients` is reached.
    TooManyClients,
    /// An open transaction of the database has checked the lock
    /// ([`LockGuard::sql_check`](crate::LockGuard::sql_check)), so it stays as it is until that ends.
    OpenTransaction,
    /// A node of a cluster did not execute the command, because another node has the key (`MOVED`,
    /// `ASK`), the key is being moved (`TRYAGAIN`), or no node serves it (`CLUSTERDOWN`).
    Cluster,
    /// The server refused for another reason; its words are the error's source.
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

    /// Its text; a missing right is named as the server's words name it.
    fn as_said_by(self, words: &Reason) -> String {
        let text = self.to_string();
        match missing_right(&words.0).filter(|_| self == Refusal::NoPermission) {
            Some(right) => text.replacen(LACKS, &format!("{LACKS} ({right})"), 1),
            None => text,
        }
    }

    /// Whether it ends by itself, so that waiting makes sense.
    pub(crate) fn may_pass(self) -> bool {
        matches!(
            self,
            Refusal::Busy | Refusal::Loading | Refusal::TooManyClients | Refusal::NotReplicated
        )
    }
}

const LACKS: &str = "this user lacks a right";

/// The right that is missing. A server before 7.2 does not name a script's command, so `words` end
/// with those that it may be.
fn missing_right(words: &str) -> Option<String> {
    if let Some((_, rest)) = words.split_once("run the '") {
        let (command, _) = rest.split_once('\'')?;
        return Some(format!("to run `{command}`"));
    }
    let named = |before| words.split_once(before).map(|(_, named)| named);
    if let Some(rights) = named("role lacks ").or_else(|| named("role needs ")) {
        return Some(rights.trim_end_matches(": GRANT it").to_owned());
    }
    if let Some(what) = named("permission denied for ") {
        let what = what.split_once(" (").map_or(what, |(what, _)| what);
        return Some(format!("for the {what}"));
    }
    if words.contains("can't run this command") {
        let (_, commands) = words.rsplit_once(" (")?;
        let commands = commands.trim_end_matches(')').to_ascii_lowercase();
        return Some(format!("to run `{}`", commands.replace(", ", "`, `")));
    }
    ["channel", "key"]
        .into_iter()
        .find(|what| words.contains(&format!(" {what}")))
        .map(|what| format!("for a {what}"))
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::ReadOnly => "it is a read-only replica; give dlock the master's address",
            Refusal::OutOfMemory => "it is out of memory or disk; raise `maxmemory`, or make room (leases that are held go on)",
            Refusal::NoPermission => "this user lacks a right; the documentation of the crate `dlock-runtime` lists those that dlock needs, under Rights",
            Refusal::Auth => "wrong or missing password, or no such user; check the URL's credentials, which are before the host: `:password@` or `user:password@`",
            Refusal::SentinelAuth => "the sentinels refuse the login that they were given; give theirs as `sentinel_user` and `sentinel_pass` in the URL, whose `user:password@` is the master's",
            Refusal::Certificate => "TLS: a certificate is missing or not accepted; see the source for which and what to do",
            Refusal::Tls => "TLS: the two sides can't speak it with each other; check the URL's scheme and port, and whether the server encrypts",
            Refusal::WrongType => "this key holds a value of another type; find who writes it, or choose another key or namespace",
            Refusal::Companion => "one of the keys that dlock keeps beside its locks holds data that dlock did not write; see the source for which, find who writes it, and delete it",
            Refusal::WrongKind => "this key is in use as another kind of lock; use one kind for a key, in the whole fleet",
            Refusal::NoTtl => "this key holds a value without a time to live, which would block it for ever; delete it, or set `repair_missing_ttl`",
            Refusal::Busy => "a script of another client keeps it busy; find it, or `SCRIPT KILL`",
            Refusal::Loading => "it is still loading its data; wait, or give the call a longer `wait`",
            Refusal::Layout => "this key was written by another version of dlock; run one version in the whole fleet",
            Refusal::Misconfigured => "it can't persist or replicate writes; see its log",
            Refusal::NotReplicated => "too few of its replicas confirmed the lock in time; bring them back, or ask for fewer by `min_replicas` or `min_aof`",
            Refusal::TooManyClients => "its `maxclients` is reached; raise it, or find who keeps so many connections",
            Refusal::OpenTransaction => "an open transaction has checked this lock; end it first (`dlock show` names it)",
            Refusal::Cluster => "it is a node of a cluster, and this key is elsewhere in it; write `redis+cluster://` (with TLS `rediss+cluster://`) into the URL",
            Refusal::Other => "with an error that dlock does not know; its words are the `source()`",
        })
    }
}
