//! What an administrator sees of one lock: its holders, its queue, its kind. For people and tools.
//! Never in this folder: a decision.
//!
//! `stored` is what was read from the server, and makes the report; `fingerprint` names a holder;
//! `pattern` says which keys are meant. Invariant: neither a getter nor `Debug` shows a token, an
//! entry or a foreign value.

mod fingerprint;
pub(crate) mod pattern;
mod stored;

use std::fmt;
use std::time::Duration;

pub use self::fingerprint::Fingerprint;
pub(crate) use self::stored::{HolderSearch, Part, Scanned, Sought, Stored, StoredLock, StoredSet};
use super::fence::Fence;
use super::holder::Holder;

/// One lock as the server had it at one moment, from [`Admin`](crate::Admin).
///
/// The lock may have changed by the time the report arrives: show it, but base no decision on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockReport {
    key: String,
    kind: Option<LockKind>,
    holders: Vec<HolderReport>,
    holder_count: usize,
    waiters: Vec<WaiterReport>,
    waiter_count: usize,
    is_whole: bool,
    remaining: Option<Duration>,
    fence: Option<Fence>,
    fence_at_most: Fence,
    kept_by: Option<String>,
}

impl LockReport {
    /// Returns the key as a program writes it, without the namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what is stored at the key; `None` if nothing is, and only the queue is left.
    #[must_use]
    pub fn kind(&self) -> Option<&LockKind> {
        self.kind.as_ref()
    }

    /// Returns the holders, the first to end first. Empty for data that is not dlock's, except for
    /// a [`Foreign`](LockKind::Foreign) holder. A list has only the first few.
    #[must_use]
    pub fn holders(&self) -> &[HolderReport] {
        &self.holders
    }

    /// Returns the open transaction that keeps the lock from its next holder, as text for people; `None`
    /// if none does, or its server can't name it. Only PostgreSQL has such transactions
    /// ([`LockGuard::sql_check`](crate::LockGuard::sql_check)), and only
    /// [`Admin::show`](crate::Admin::show) looks for them.
    #[must_use]
    pub fn kept_by(&self) -> Option<&str> {
        self.kept_by.as_deref()
    }

    /// Returns the number of holders. If not all were read, each permit counts as one, and so does
    /// each holder whose lease has ended if nobody has requested the lock since.
    #[must_use]
    pub fn holder_count(&self) -> usize {
        self.holder_count
    }

    /// Returns the waiters, in the order of the queue. A list has only the first few.
    ///
    /// Each entry is for one process and attempt, behind which more tasks of that process may wait;
    /// `fair` locks and the kinds with many holders have one for each task.
    #[must_use]
    pub fn waiters(&self) -> &[WaiterReport] {
        &self.waiters
    }

    /// Returns the number of waiters, in the same sense. Always 0 where
    /// [`Admin::sees_waiters`](crate::Admin::sees_waiters) is `false`.
    #[must_use]
    pub fn waiter_count(&self) -> usize {
        self.waiter_count
    }

    /// Returns whether [`holders`](Self::holders) and [`waiters`](Self::waiters) are complete.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Returns how long until the key expires by itself, with its last holder. `None` if nobody
    /// holds it, or if a foreign key has no time to live.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns how long the first waiter in the queue has waited.
    #[must_use]
    pub fn waiting(&self) -> Option<Duration> {
        self.waiters.first().map(WaiterReport::waiting)
    }

    /// Returns the fencing token of the hold, if the server stores it: for a lock with an
    /// [`owner`](crate::LockRequest::owner). With other kinds only the holder knows it.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// Returns a bound: no holder of this lock has a higher fencing token. It comes from the
    /// server's clock and the last epoch that was drawn for any lock of the namespace.
    #[must_use]
    pub fn fence_at_most(&self) -> Fence {
        self.fence_at_most
    }
}

/// What is stored at a lock's key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// An exclusive lock, or a `reentrant` one without an owner.
    Exclusive,
    /// Readers, or one writer.
    ReadWrite,
    /// A semaphore.
    Permits,
    /// A `reentrant` lock, held by this owner.
    Owner(String),
    /// Text that dlock did not write. It keeps others out as a lock does, and usually is one, of
    /// redis-py, redsync or node-redlock.
    Foreign,
    /// A lock of another version of dlock, whose rules this version does not know.
    OtherLayout,
    /// Not a lock: data of another type, which some program stores at the name of a lock.
    OtherType,
}

impl LockKind {
    /// Returns whether dlock wrote it and this version knows its rules.
    #[must_use]
    pub fn is_dlocks(&self) -> bool {
        !matches!(
            self,
            LockKind::Foreign | LockKind::OtherLayout | LockKind::OtherType
        )
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LockKind::Exclusive => f.write_str("exclusive"),
            LockKind::ReadWrite => f.write_str("read/write"),
            LockKind::Permits => f.write_str("permits"),
            LockKind::Owner(owner) => write!(f, "owner {owner}"),
            LockKind::Foreign => f.write_str("not dlock's: a text of another program"),
            LockKind::OtherLayout => f.write_str("not this dlock's: of another version"),
            LockKind::OtherType => f.write_str("not dlock's: data of another type"),
        }
    }
}

/// The kind of a hold, or of what a waiter waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldKind {
    /// Alone.
    Exclusive,
    /// As one of the readers.
    Read,
    /// As the writer.
    Write,
    /// With some of the permits.
    #[non_exhaustive]
    Permits {
        /// How many it takes.
        take: u32,
        /// How many there are, as its program says.
        of: u32,
    },
    /// On behalf of this owner.
    Owner(String),
    /// By another program, which does not say how.
    Foreign,
}

impl fmt::Display for HoldKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldKind::Exclusive => f.write_str("exclusive"),
            HoldKind::Read => f.write_str("read"),
            HoldKind::Write => f.write_str("write"),
            HoldKind::Permits { take, of } => write!(f, "{take} of {of} permits"),
            HoldKind::Owner(owner) => write!(f, "owner {owner}"),
            HoldKind::Foreign => f.write_str("foreign"),
        }
    }
}

/// One holder of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderReport {
    fingerprint: Fingerprint,
    holder: Holder,
    kind: HoldKind,
    age: Option<Duration>,
    remaining: Option<Duration>,
    is_kept: bool,
}

impl HolderReport {
    /// Returns the holder's name for [`Admin::evict`](crate::Admin::evict).
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns its host, process and function, as it described itself.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// Returns the kind of its hold.
    #[must_use]
    pub fn kind(&self) -> &HoldKind {
        &self.kind
    }

    /// Returns how long ago it requested the lock: the server's time, less the time that the holder
    /// wrote down by its own clock. Zero if that clock is ahead; `None` for a foreign holder.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    /// Returns the rest of its lease, by the server's clock. `None` if it has no end, as only a
    /// foreign key can.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Returns whether the holder is done, and only [`min_hold`](crate::LockRequest::min_hold)
    /// still keeps the lock.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }
}

/// Whether a holder that was [evicted](crate::Admin::evict) was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Notice {
    /// A message was sent. The holder asks the server when it gets it, and its body is stopped within
    /// a round trip. It does not get it if it has reconnected since it asked for the lock, nor, with
    /// several servers, if it has no pushes.
    Sent,
    /// Its entry names no address: it is another program's or without pushes, or only
    /// [`min_hold`](crate::LockRequest::min_hold) has kept the lock.
    NoAddress,
    /// The server refused the message, mostly because the user may not publish, or did not answer.
    Failed,
}

/// One entry of a lock's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaiterReport {
    fingerprint: Fingerprint,
    waiter: Holder,
    kind: HoldKind,
    waiting: Duration,
    is_silent: bool,
}

impl WaiterReport {
    /// Returns the waiter's name, which is the holder's name once the lock is granted to it.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns its host, process and function, as it described itself.
    #[must_use]
    pub fn waiter(&self) -> &Holder {
        &self.waiter
    }

    /// Returns the kind of hold that it waits for.
    #[must_use]
    pub fn kind(&self) -> &HoldKind {
        &self.kind
    }

    /// Returns how long it has been in the queue, by the server's clock.
    #[must_use]
    pub fn waiting(&self) -> Duration {
        self.waiting
    }

    /// Returns whether it has shown no sign of life for 3.5 s: the lock is not granted to it,
    /// unless it comes back.
    ///
    /// This is exact in [`Admin::show`](crate::Admin::show). A list reads only the first few signs
    /// of life, those that ended first, so in a queue with many silent waiters it may miss some.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }
}
