//! Reads the lock that code runs under, without owning it.
//!
//! It sends no command and never releases; it answers from the lease cells.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lease_cell::Cells;
use super::shutdown::ClosingSignal;
use crate::values::error::LostCause;
use crate::values::fence::Fence;
use crate::values::key::Key;

/// A read-only view of the lock that the current code runs under, from [`current`](crate::current).
///
/// It never releases the lock, and may be kept or sent to another task.
#[derive(Clone)]
pub struct LockHandle {
    key: Key,
    fence: Fence,
    cells: Cells,
    closing: Arc<ClosingSignal>,
}

impl LockHandle {
    pub(crate) fn new(key: Key, fence: Fence, cells: Cells, closing: &Arc<ClosingSignal>) -> Self {
        Self {
            key,
            fence,
            cells,
            closing: closing.clone(),
        }
    }

    /// Returns the lock's name on the server, including the namespace; with several keys, the first
    /// one's.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// Returns the fencing token of this grant.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence
    }

    /// Returns how long the lease can be counted on without a renewal; zero once it is over.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.cells.remaining()
    }

    /// Returns whether the lease can be counted on at this moment, by the local clock.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.cells.is_held()
    }

    /// Waits until the lease is lost, and returns the cause; **never** ends for a lease that is
    /// released in time, so give a task that waits for it an end of its own
    /// ([`LockGuard::lost`](crate::LockGuard::lost)).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub fn lost(&self) -> impl Future<Output = LostCause> + Send + 'static + use<> {
        self.cells.clone().watch_lost()
    }

    /// Waits until a shutdown of the lock's pool begins; ready at once if one has begun
    /// ([`LockGuard::closing`](crate::LockGuard::closing)).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub fn closing(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        self.closing.wait()
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
