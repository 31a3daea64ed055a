//! What a program can be told about its locks, call by call: a trait to implement, and what its
//! methods get.
//!
//! Plain data; `observe` calls the listener. Invariant: nothing here shows a token or a value of
//! the server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::error::{LockError, LostCause};

/// A listener for each acquire, hold and loss of a pool's locks, in a service that counts or shows
/// them itself; [`Config::listener`](crate::Config::listener) sets it.
///
/// The methods are called where the event happens: on the task that acquires or releases, and for
/// losses and renewals also on the watchdog's thread, where they delay all renewals. So a method
/// must not block; let it send longer work to a task of its own. A panic in a method is caught and
/// logged once.
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::{AcquireOutcome, Config, LockInfo, LockListener, LockPool};
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// #[derive(Default)]
/// struct Skipped(AtomicU64);
///
/// impl LockListener for Skipped {
///     fn acquire_ended(&self, lock: &LockInfo<'_>, outcome: AcquireOutcome, _: Duration) {
///         if lock.class() == "nightly" && outcome == AcquireOutcome::Busy {
///             self.0.fetch_add(1, Ordering::Relaxed);
///         }
///     }
/// }
///
/// let skipped = Arc::new(Skipped::default());
/// let pool = LockPool::connect(Config::new("memory://").listener(skipped.clone())).await?;
/// let held = pool.lock(dlock_runtime::lock_key!("nightly")).acquire().await?;
/// assert!(pool.lock(dlock_runtime::lock_key!("nightly")).try_acquire().await?.is_none());
/// assert_eq!(skipped.0.load(Ordering::Relaxed), 1);
/// # drop(held); Ok(()) }
/// ```
pub trait LockListener: Send + Sync + 'static {
    /// Reports that a call ended after this time, with the lock or without it. With several keys,
    /// `lock` is the first one. It is not called for a call that joins a lock which its own body
    /// holds.
    fn acquire_ended(&self, lock: &LockInfo<'_>, outcome: AcquireOutcome, waited: Duration) {
        let _ = (lock, outcome, waited);
    }

    /// Reports that a holder is done with its lock after this time: it released or dropped the
    /// lock, or its body was stopped. It is called for each key.
    fn hold_ended(&self, lock: &LockInfo<'_>, outcome: HoldOutcome, held: Duration) {
        let _ = (lock, outcome, held);
    }

    /// Reports that a lease ended before its holder was done. It is called after
    /// [`hold_ended`](Self::hold_ended) if only the release found out.
    fn lost(&self, lock: &LockInfo<'_>, cause: LostCause) {
        let _ = (lock, cause);
    }

    /// Reports that a lease was renewed: `left` is what was left of it, `lease` how long it lasts
    /// now. Each time that `left` comes near zero, the lock was nearly lost.
    fn renewed(&self, lock: &LockInfo<'_>, left: Duration, lease: Duration) {
        let _ = (lock, left, lease);
    }
}

impl<T: LockListener + ?Sized> LockListener for Arc<T> {
    fn acquire_ended(&self, lock: &LockInfo<'_>, outcome: AcquireOutcome, waited: Duration) {
        (**self).acquire_ended(lock, outcome, waited);
    }

    fn hold_ended(&self, lock: &LockInfo<'_>, outcome: HoldOutcome, held: Duration) {
        (**self).hold_ended(lock, outcome, held);
    }

    fn lost(&self, lock: &LockInfo<'_>, cause: LostCause) {
        (**self).lost(lock, cause);
    }

    fn renewed(&self, lock: &LockInfo<'_>, left: Duration, lease: Duration) {
        (**self).renewed(lock, left, lease);
    }
}

/// The lock that an event of a [`LockListener`] is about.
#[derive(Clone, Copy, Debug)]
pub struct LockInfo<'a> {
    pub(crate) class: &'a str,
    pub(crate) key: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) function: &'a str,
}

impl LockInfo<'_> {
    /// Returns the key's template, `item:<id>`; for a key without one, the place in the program
    /// that requests it. There are never more classes than places in the program's text, so the
    /// class is suitable as a label.
    #[must_use]
    pub fn class(&self) -> &str {
        self.class
    }

    /// Returns the lock's name on the server, including the namespace. Do not use it as a label:
    /// there may be millions.
    #[must_use]
    pub fn key(&self) -> &str {
        self.key
    }

    /// Returns the kind: `exclusive`, `read`, `write`, `permits` or `owner`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Returns the annotated function, `shop::purchase`, or the `file:line` of a
    /// [`LockPool::lock`](crate::LockPool::lock).
    #[must_use]
    pub fn function(&self) -> &str {
        self.function
    }
}

/// The outcome of a call to acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum AcquireOutcome {
    /// The call has the lock, which was free.
    AtOnce,
    /// The call has the lock after a wait: the server granted it in its turn.
    InTurn,
    /// The call has the lock from a holder of this process, which handed it on without the server.
    HandedOn,
    /// Another holder has the lock, and the call's `wait` was over.
    Busy,
    /// Its job runs once per period, and was run within it: [`LockError::NotDue`].
    NotDue,
    /// The server refused: [`LockError::Refused`].
    Refused,
    /// The server did not answer: [`LockError::Unavailable`].
    Unavailable,
    /// Any other error, such as a deadlock in the program or a pool that is shut down. A mistake in
    /// the request itself, such as in its key, is refused before the call begins.
    Failed,
    /// The call was dropped before it ended.
    Cancelled,
}

impl AcquireOutcome {
    /// Returns the outcome as a label: `at_once`, `in_turn`, `handed_on`, `busy`, `refused`,
    /// `unavailable`, `failed`, `cancelled`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AtOnce => "at_once",
            Self::InTurn => "in_turn",
            Self::HandedOn => "handed_on",
            Self::Busy => "busy",
            Self::NotDue => "not_due",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub(crate) fn of(error: &LockError) -> Self {
        match error {
            LockError::Busy { .. } => Self::Busy,
            LockError::NotDue { .. } => Self::NotDue,
            LockError::Refused { .. } => Self::Refused,
            LockError::Unavailable { .. } => Self::Unavailable,
            _ => Self::Failed,
        }
    }
}

/// The outcome of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HoldOutcome {
    /// The holder was done while its lease counted, by the local clock. The server has not
    /// confirmed this: it frees the lock when it receives the release.
    InTime,
    /// The lease had ended before.
    Lost,
    /// The body was stopped by a shutdown of its pool, while its lease counted.
    Stopped,
}

impl HoldOutcome {
    /// Returns the outcome as a label: `in_time`, `lost`, `stopped`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InTime => "in_time",
            Self::Lost => "lost",
            Self::Stopped => "stopped",
        }
    }
}

/// The listener of a configuration.
#[derive(Clone)]
pub(crate) struct ConfiguredListener(pub(crate) Arc<dyn LockListener>);

impl fmt::Debug for ConfiguredListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockListener")
    }
}
