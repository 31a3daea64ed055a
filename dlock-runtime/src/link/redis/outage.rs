//! Notes attempts to connect, which a pool makes in several runtimes at a time: tells the beginning
//! and the end of an outage.
//!
//! Invariant: an attempt that had begun before another succeeded begins no outage when it fails
//! later.

use std::sync::{Mutex, PoisonError};

/// The attempts to connect of one pool.
#[derive(Debug, Default)]
pub(crate) struct Attempts(Mutex<AttemptCounts>);

#[derive(Debug, Default)]
struct AttemptCounts {
    begun: u64,
    /// How many had begun at the last success.
    begun_before_success: u64,
    /// How many of the later ones have failed.
    failed: u32,
}

/// An attempt, by its number; the first is 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptNumber(u64);

impl Attempts {
    pub(crate) fn begin(&self) -> AttemptNumber {
        self.note(|counts| {
            counts.begun += 1;
            AttemptNumber(counts.begun)
        })
    }

    /// Notes a success; returns how many attempts had failed in the outage that it ends, if it ends
    /// one.
    pub(crate) fn succeeded(&self) -> Option<u32> {
        let failed = self.note(|counts| {
            counts.begun_before_success = counts.begun;
            std::mem::take(&mut counts.failed)
        });
        (failed > 0).then_some(failed)
    }

    /// Notes a failure; returns whether an outage begins with it.
    pub(crate) fn failed(&self, attempt: AttemptNumber) -> bool {
        self.note(|counts| {
            let is_old = attempt.0 <= counts.begun_before_success;
            let is_first = !is_old && counts.failed == 0;
            counts.failed = counts.failed.saturating_add(u32::from(!is_old));
            is_first
        })
    }

    fn note<T>(&self, change: impl FnOnce(&mut AttemptCounts) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
