//! How often one body holds a lock, and whether a guard is an inner one.
//!
//! It sends nothing. Invariant: the lock ends with its outermost guard; an inner one only counts.
//! The count is in the lease's cell, which all these guards share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// `None` for the outermost guard; for an inner one, whether it has left.
#[derive(Debug)]
pub(super) struct Reentry(Option<AtomicBool>);

impl Reentry {
    pub(super) fn outermost() -> Self {
        Self(None)
    }

    pub(super) fn once_more(holds: &AtomicU32) -> Self {
        holds.fetch_add(1, Ordering::Relaxed);
        Self(Some(AtomicBool::new(false)))
    }

    pub(super) fn is_inner(&self) -> bool {
        self.0.is_some()
    }

    /// An inner guard leaves: how often the lock is held without it; `None` if it had left before.
    pub(super) fn leave(&self, holds: &AtomicU32) -> Option<u32> {
        let left = self.0.as_ref()?;
        if left.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(holds.fetch_sub(1, Ordering::Relaxed) - 1)
    }
}
