//! How often a lock is held inside one body, and whether this guard is one of the inner ones.
//!
//! Invariant: the lock ends with its outermost guard; an inner one only counts. The count is in the
//! lease's cell, which all of them share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Of an inner one: whether it has left.
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

    /// Of an inner one: how often the lock is held without it; `None` if it had left before.
    pub(super) fn leave(&self, holds: &AtomicU32) -> Option<u32> {
        let left = self.0.as_ref()?;
        if left.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(holds.fetch_sub(1, Ordering::Relaxed) - 1)
    }
}
