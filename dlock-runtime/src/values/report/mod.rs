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
pub(crate) use self::stored::{HolderSearch, Part, Scanned, Stored, StoredLock, StoredSet};
use super::fence::Fence;
use super::holder::Holder;

/// One lock as the server had it at one moment, from [`Admin`](crate::Admin).
///
/// It may have changed when it arrives: show it, decide nothing by it.
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
}

impl LockReport {
    /// The key as a program writes it, without the namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What stands at the key; `None` if nothing does, and only the queue is left.
    #[must_use]
    pub fn kind(&self) -> Option<&LockKind> {
        self.kind.as_ref()
    }

    /// Who holds it, the first to end first. Empty for what is not dlock's, except for a
    /// [`Foreign`](LockKind::Foreign) holder. In a list only the first few.
    #[must_use]
    pub fn holders(&self) -> &[HolderReport] {
        &self.holders
    }

    /// How many hold it. If not all were read, each permit counts as one, and so do holders whose
    /// lease has ended while nobody has asked for the lock since.
    #[must_use]
    pub fn holder_count(&self) -> usize {
        self.holder_count
    }

    /// Who waits for it, in the order of the queue. In a list only the first.
    ///
    /// Each stands for one process and attempt, behind which more tasks of that process may wait;
    /// `fair` and the kinds with many holders have one for each task.
    #[must_use]
    pub fn waiters(&self) -> &[WaiterReport] {
        &self.waiters
    }

    /// How many wait, in the same sense. Always 0 where
    /// [`Admin::sees_waiters`](crate::Admin::sees_waiters) is `false`.
    #[must_use]
    pub fn waiter_count(&self) -> usize {
        self.waiter_count
    }

    /// Whether [`holders`](Self::holders) and [`waiters`](Self::waiters) are complete.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// How long until the key ends by itself, with its last holder. `None` if nobody holds it, or
    /// if a foreign key has no time to live.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// How long the first of the queue has waited.
    #[must_use]
    pub fn waiting(&self) -> Option<Duration> {
        self.waiters.first().map(WaiterReport::waiting)
    }

    /// The fencing token of the hold, if the server keeps it: for a lock with an `owner`. Of other
    /// kinds only the holder knows it.
    #[must_use]
    pub fn fence(&self) -> Option<Fence> {
        self.fence
    }

    /// No holder of this lock has a higher fencing token than this, which is made of the server's
    /// clock and the last epoch that was drawn for any lock of the namespace.
    #[must_use]
    pub fn fence_at_most(&self) -> Fence {
        self.fence_at_most
    }
}

/// What stands at a lock's key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockKind {
    /// An exclusive lock; also a `reentrant` one without an owner.
    Exclusive,
    /// Readers, or one writer.
    ReadWrite,
    /// A semaphore.
    Permits,
    /// A `reentrant` lock, held by this owner.
    Owner(String),
    /// A text that dlock did not write. It keeps others out as a lock does, and usually is one, of
    /// redis-py, redsync or node-redlock.
    Foreign,
    /// A lock of another version of dlock, whose rules this version does not know.
    OtherLayout,
    /// Not a lock: data of another type, which some program keeps at the name of a lock.
    OtherType,
}

impl LockKind {
    /// Whether dlock wrote it, and this version knows its rules.
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

/// As what somebody holds a lock, or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldKind {
    /// Alone.
    Exclusive,
    /// As one of the readers.
    Read,
    /// As the writer.
    Write,
    /// With this many of the permits.
    #[non_exhaustive]
    Permits {
        /// How many it takes.
        take: u32,
        /// Out of how many, as its program says.
        of: u32,
    },
    /// As part of this owner's work.
    Owner(String),
    /// As another program, which does not say.
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
    /// Its name for [`Admin::evict`](crate::Admin::evict).
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Host, process and function, as it described itself.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.holder
    }

    /// As what it holds the lock.
    #[must_use]
    pub fn kind(&self) -> &HoldKind {
        &self.kind
    }

    /// How long ago it asked for the lock: the server's clock, less the time that it wrote down by
    /// its own clock. Zero if its clock is ahead; `None` for a foreign holder.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.age
    }

    /// How long its lease has left, by the server's clock. `None`: it has no end, which only a
    /// foreign key can lack.
    #[must_use]
    pub fn remaining(&self) -> Option<Duration> {
        self.remaining
    }

    /// Whether its holder is done, and only `min_hold` still keeps the lock.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }
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
    /// Its name; once it is granted the lock, the same as its holder's.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Host, process and function, as it described itself.
    #[must_use]
    pub fn waiter(&self) -> &Holder {
        &self.waiter
    }

    /// As what it will hold the lock.
    #[must_use]
    pub fn kind(&self) -> &HoldKind {
        &self.kind
    }

    /// How long it has stood in the queue, by the server's clock.
    #[must_use]
    pub fn waiting(&self) -> Duration {
        self.waiting
    }

    /// Whether it has shown no sign of life for 3.5 s: the lock is not granted to it, unless it
    /// comes back.
    ///
    /// Exact in [`Admin::show`](crate::Admin::show). A list reads only the first few signs of life,
    /// those that ended first, so of a queue with many silent waiters it may miss some.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.is_silent
    }
}
