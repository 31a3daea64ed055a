//! How often a lock is held inside one body, and whether this guard is one of the inner ones.
//!
//! Invariant: the lock ends with its outermost guard; an inner one only counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[derive(Debug)]
pub(super) struct Entered {
    count: Arc<AtomicU32>,
    /// Of an inner one: whether it has left.
    inner: Option<AtomicBool>,
}

impl Entered {
    pub(super) fn outermost() -> Self {
        Self {
            count: Arc::new(AtomicU32::new(1)),
            inner: None,
        }
    }

    pub(super) fn once_more(&self) -> Self {
        self.count.fetch_add(1, Ordering::Relaxed);
        Self {
            count: self.count.clone(),
            inner: Some(AtomicBool::new(false)),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    pub(super) fn is_inner(&self) -> bool {
        self.inner.is_some()
    }

    /// Of an inner one: how often the lock is held without it; `None` if it had left before.
    pub(super) fn leave(&self) -> Option<u32> {
        let left = self.inner.as_ref()?;
        if left.swap(true, Ordering::AcqRel) {
            return None;
        }
        Some(self.count.fetch_sub(1, Ordering::Relaxed) - 1)
    }
}
