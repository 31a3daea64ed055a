//! How often one body holds a lock, and whether a guard is an inner one.
//!
//! It sends nothing. Invariant: the lock ends with its outermost guard; an inner one only counts.
//! The count is in the lease's cell, which all these guards share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// `None` for the outermost guard.
#[derive(Debug)]
pub(super) struct Reentry(Option<InnerEntry>);

/// That of an inner guard.
#[derive(Debug)]
struct InnerEntry {
    has_left: AtomicBool,
    /// Its body may be stopped at a shutdown, whatever the outer guard's may.
    stops_at_shutdown: bool,
}

impl Reentry {
    pub(super) fn outermost() -> Self {
        Self(None)
    }

    pub(super) fn once_more(holds: &AtomicU32, stops_at_shutdown: bool) -> Self {
        holds.fetch_add(1, Ordering::Relaxed);
        Self(Some(InnerEntry {
            has_left: AtomicBool::new(false),
            stops_at_shutdown,
        }))
    }

    pub(super) fn is_inner(&self) -> bool {
        self.0.is_some()
    }

    /// Whether it is that of an inner body which may not be stopped.
    pub(super) fn finishes(&self) -> bool {
        self.0
            .as_ref()
            .is_some_and(|inner| !inner.stops_at_shutdown)
    }

    /// An inner guard leaves: how often the lock is held without it; `None` if it had left before.
    pub(super) fn leave(&self, holds: &AtomicU32) -> Option<u32> {
        let inner = self.0.as_ref()?;
        if inner.has_left.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(holds.fetch_sub(1, Ordering::Relaxed) - 1)
    }
}
