//! Reads the lock that code runs under, without owning it.
//!
//! It sends no command and never releases; it answers from the lease cells.

use std::fmt;
use std::time::Duration;

use super::lease_cell::Cells;
use crate::values::error::LostCause;
use crate::values::fence::Fence;
use crate::values::key::Key;

/// Reads the lock that the current code runs under; see [`current`](crate::current).
///
/// It never releases, and may be kept or sent to another task.
#[derive(Clone)]
pub struct LockHandle {
    key: Key,
    fence: Fence,
    cells: Cells,
}

impl LockHandle {
    pub(crate) fn new(key: Key, fence: Fence, cells: Cells) -> Self {
        Self { key, fence, cells }
    }

    /// The lock's name on the server, namespace included; of several keys, the first one's.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The fencing token of this grant.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// How long the lease can be counted on without a renewal; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.cells.remaining()
    }

    /// Whether the lease can be counted on at this moment, by the local clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.cells.is_held()
    }

    /// Ends when the lease is lost, with the cause; **never** for a lease that is released in time,
    /// so give a task that waits for it an end of its own
    /// ([`LockGuard::lost`](crate::LockGuard::lost)).
    pub fn lost(&self) -> impl Future<Output = LostCause> + Send + 'static + use<> {
        self.cells.clone().watch_lost()
    }
}

impl fmt::Debug for LockHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockHandle")
            .field("key", &self.key)
            .field("fence", &self.fence)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
