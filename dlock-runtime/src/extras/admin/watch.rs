//! Follows locks by listing them again and again, and tells what is different.
//!
//! Invariants: it keeps at most [`MOST`] locks, and waits at least [`SHORTEST`] between two passes.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::listing::Listing;
use crate::driver::core::Core;
use crate::link::command_error;
use crate::values::error::LockError;
use crate::values::report::{Fingerprint, HolderReport, LockReport, WaiterReport};

/// The most locks that are followed.
const MOST: usize = 10_000;

/// The shortest time between two passes.
const SHORTEST: Duration = Duration::from_millis(100);

/// How many holders of each lock are compared one by one.
const COMPARED: usize = 64;

/// A watch that follows locks, from [`Admin::watch`](crate::Admin::watch).
///
/// It compares one pass of [`Listing`] with the one before, so it misses what comes and goes
/// between the two, and it reports a change up to one interval and one pass late. It follows up to
/// 10,000 locks. It does nothing between two passes, or without a call of [`next`](Self::next).
#[must_use = "it asks the server only when `next` is called"]
pub struct Watch {
    core: Arc<Core>,
    pattern: String,
    every: Duration,
    /// The pass under way.
    listing: Option<Listing>,
    /// When the next one begins; `None`: at once.
    begins: Option<Instant>,
    /// How many passes have begun …
    pass: u64,
    /// … and whether one has been completed.
    is_known: bool,
    seen: HashMap<String, SeenLock>,
    /// Not told yet.
    changes: VecDeque<LockChange>,
}

/// A lock as a pass saw it.
struct SeenLock {
    pass: u64,
    /// In the order of their values; empty if they were too many to compare.
    holders: Vec<Fingerprint>,
    holder_count: usize,
    first_waiter: Option<Fingerprint>,
    waiter_count: usize,
}

/// A change at a lock, from [`Watch::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockChange {
    key: String,
    change: Change,
    lock: Option<LockReport>,
}

/// The kind of a change since the pass before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Change {
    /// The lock was there when the watch began.
    Found,
    /// The lock was free, and is now held.
    Taken,
    /// The lock's holders changed.
    Holders,
    /// The holders are the same, but the number of waiters or the first waiter changed.
    Queue,
    /// Nobody holds the lock any more; or it moved to another master of a cluster during a pass,
    /// and the next pass reports it as [taken](Self::Taken).
    Freed,
}

impl LockChange {
    /// Returns the lock's key, without the namespace.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns what changed.
    #[must_use]
    pub fn change(&self) -> Change {
        self.change
    }

    /// Returns the lock as it is now; `None` if nobody holds it any more.
    #[must_use]
    pub fn lock(&self) -> Option<&LockReport> {
        self.lock.as_ref()
    }
}

impl Watch {
    pub(super) fn of(core: Arc<Core>, pattern: String) -> Self {
        Self {
            core,
            pattern,
            every: Duration::from_secs(1),
            listing: None,
            begins: None,
            pass: 0,
            is_known: false,
            seen: HashMap::new(),
            changes: VecDeque::new(),
        }
    }

    /// Sets how long to wait between the end of one pass and the next; at least 100 ms.
    pub fn every(self, interval: Duration) -> Self {
        Self {
            every: interval.max(SHORTEST),
            ..self
        }
    }

    /// Waits for the next change, and returns it.
    ///
    /// # Errors
    /// As [`Listing::next_page`]; the next call begins a new pass, which reports changes that
    /// happened meanwhile. [`LockError::Config`] if more than 10,000 locks match.
    ///
    /// # Cancel safety
    /// Dropping the future loses no change.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// # let pool = dlock_runtime::LockPool::connect("memory://").await?;
    /// # let _held = pool.lock("item:7").acquire().await?;
    /// use std::time::Duration;
    ///
    /// use dlock_runtime::Change;
    ///
    /// let mut watch = pool.admin().watch("item:*").every(Duration::from_secs(5));
    /// let change = watch.next().await?;
    /// assert_eq!((change.key(), change.change()), ("item:7", Change::Found));
    /// # Ok(()) }
    /// ```
    pub async fn next(&mut self) -> Result<LockChange, LockError> {
        loop {
            if let Some(change) = self.changes.pop_front() {
                return Ok(change);
            }
            if let Err(error) = self.go_on().await {
                self.end_pass();
                return Err(error);
            }
        }
    }

    /// One page further.
    async fn go_on(&mut self) -> Result<(), LockError> {
        command_error::runtime_with_timers().map_err(|error| error.into_error(None))?;
        if self.listing.is_none() {
            if let Some(begins) = self.begins {
                tokio::time::sleep_until(begins).await;
            }
            self.pass += 1;
        }
        let begin = || Listing::of(self.core.clone(), &self.pattern).reading_at_most(COMPARED);
        let listing = self.listing.get_or_insert_with(begin);
        if let Some(page) = listing.next_page().await? {
            return page.into_iter().try_for_each(|lock| self.see(lock));
        }
        self.tell_freed();
        self.is_known = true;
        self.end_pass();
        Ok(())
    }

    fn end_pass(&mut self) {
        self.listing = None;
        self.begins = Instant::now().checked_add(self.every);
    }

    fn see(&mut self, lock: LockReport) -> Result<(), LockError> {
        let now = SeenLock::of(&lock, self.pass);
        let before = self.seen.get(lock.key());
        if before.is_none() && self.seen.len() >= MOST {
            return Err(LockError::config(format_args!(
                "more than {MOST} locks match what is watched: give a pattern that fewer match"
            )));
        }
        let change = match before {
            Some(before) if before.holders_differ(&now) => Some(Change::Holders),
            Some(before) if before.queue_differs(&now) => Some(Change::Queue),
            Some(_) => None,
            None if self.is_known => Some(Change::Taken),
            None => Some(Change::Found),
        };
        self.seen.insert(lock.key().to_owned(), now);
        self.changes.extend(change.map(|change| LockChange {
            key: lock.key().to_owned(),
            change,
            lock: Some(lock),
        }));
        Ok(())
    }

    /// At the end of a pass: what it has not seen is free.
    fn tell_freed(&mut self) {
        let pass = self.pass;
        let gone = self.seen.extract_if(|_, seen| seen.pass != pass);
        self.changes.extend(gone.map(|(key, _)| LockChange {
            key,
            change: Change::Freed,
            lock: None,
        }));
    }
}

impl SeenLock {
    fn of(lock: &LockReport, pass: u64) -> Self {
        let fingerprints = lock.holders().iter().map(HolderReport::fingerprint);
        let mut holders: Vec<_> = fingerprints.collect();
        if holders.len() >= COMPARED {
            holders.clear();
        }
        holders.sort_unstable(); // a renewal changes their order
        Self {
            pass,
            holders,
            holder_count: lock.holder_count(),
            first_waiter: lock.waiters().first().map(WaiterReport::fingerprint),
            waiter_count: lock.waiter_count(),
        }
    }

    fn holders_differ(&self, now: &SeenLock) -> bool {
        (&self.holders, self.holder_count) != (&now.holders, now.holder_count)
    }

    fn queue_differs(&self, now: &SeenLock) -> bool {
        (self.first_waiter, self.waiter_count) != (now.first_waiter, now.waiter_count)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Watch");
        shown.field("core", &self.core);
        shown
            .field("pattern", &self.pattern)
            .field("every", &self.every)
            .finish_non_exhaustive()
    }
}
