//! The fencing token: a number that grows with every grant of a key.
//!
//! The server draws an *epoch* at each grant; the low ten bits count the hand-offs of one lease
//! inside a process. Multiplied here and not in Lua, whose numbers are doubles.

use std::fmt;

/// How many tokens one epoch has room for. A constant of the protocol: all clients must agree.
pub(super) const PER_EPOCH: u16 = 1 << 10;

/// By how much an epoch may be above the server's time: 71 years, in µs. More than any clock is wrong
/// by, and so little that epochs stay below 2^53, where the numbers of a script end and a counter
/// begins again.
const FARTHEST: u64 = 1 << 51;

/// The highest epoch that a counter can have given at this time of the server's, in µs. A higher one
/// grants nothing: it would drive the fences to their end, and then they would fall.
pub(crate) fn highest_epoch(time: u64) -> u64 {
    time.saturating_add(FARTHEST)
}

/// A fencing token: for an exclusive or a write lock, strictly larger than that of every earlier
/// holder of the same key. For other kinds see [`LockGuard::fence`](crate::LockGuard::fence).
///
/// Send it with each write, and let the resource refuse a write whose token is lower than one it
/// has seen: that makes a lease safe against a holder that was paused past its end (Kleppmann, *How
/// to do distributed locking*, 2016).
///
/// It is a microsecond time shifted by ten bits, so it fits in a signed 64-bit column, but **not**
/// in a JavaScript number: pass it on as a string. `docs/inside/guarantees.md` in the repository
/// says what still holds when the server loses its data or its clock steps back.
///
/// # Examples
///
/// ```
/// # use dlock_runtime::{LockPool, Fence};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// let pool = LockPool::connect("memory://").await?;
/// let first = pool.lock("report").acquire().await?;
/// let earlier: Fence = first.fence();
/// first.release().await?;
///
/// let second = pool.lock("report").acquire().await?;
/// assert!(second.fence() > earlier);
/// let column: u64 = second.fence().into();
/// # second.release().await?; let _ = column; Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fence(u64);

impl Fence {
    /// The token of a holder under the grant that drew `epoch`. `index`: 0 for the holder that was
    /// granted the lock, then 1, 2, … for those it was handed on to.
    pub(crate) fn new(epoch: u64, index: u16) -> Self {
        let index = index.min(PER_EPOCH - 1);
        let first = epoch.saturating_mul(PER_EPOCH.into());
        Self(first.saturating_add(index.into()))
    }

    /// The highest token of the holders under the grant that drew `epoch`.
    pub(crate) fn last_of(epoch: u64) -> Self {
        Self::new(epoch, PER_EPOCH - 1)
    }

    /// The epoch of its grant.
    #[cfg(feature = "postgres")]
    pub(crate) fn epoch(self) -> u64 {
        self.0 / u64::from(PER_EPOCH)
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<Fence> for u64 {
    fn from(fence: Fence) -> u64 {
        fence.0
    }
}
