//! How many locks the process holds and waits for, as gauges that all its pools share.
//!
//! Each pool adds what has changed since it last did, and takes its part back when it ends. The
//! gauges are set to the sum each time, so a recorder that is installed late, or has forgotten an
//! idle gauge, shows it a second later.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::values::process::PerProcess;

/// The state of one pool, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PoolCounts {
    pub(crate) held: usize,
    /// Calls of this process.
    pub(crate) waiting: usize,
    pub(crate) cleaning_up: usize,
    /// Acquires and releases that are sent and not answered.
    pub(crate) in_flight: usize,
}

impl PoolCounts {
    /// In the order of [`super::metrics`]' gauges.
    fn numbers(self) -> [i64; 4] {
        let numbers = [self.held, self.waiting, self.cleaning_up, self.in_flight];
        numbers.map(|count| i64::try_from(count).unwrap_or(i64::MAX))
    }
}

/// The sums of all pools; a forked child has none of its parent's.
static SUMS: PerProcess<[AtomicI64; 4]> = PerProcess::new([const { AtomicI64::new(0) }; 4]);

/// What a pool has added to the sums.
#[derive(Debug, Default)]
pub(crate) struct Gauges(PoolCounts);

impl Gauges {
    pub(crate) fn set(&mut self, counts: PoolCounts) {
        let before = std::mem::replace(&mut self.0, counts).numbers();
        let mut sums = counts.numbers();
        for ((sum, before), of_all) in sums.iter_mut().zip(before).zip(SUMS.ours()) {
            let change = *sum - before;
            *sum = of_all.fetch_add(change, Ordering::Relaxed) + change;
        }
        #[cfg(feature = "metrics")]
        super::metrics::gauges(sums);
    }
}

impl Drop for Gauges {
    fn drop(&mut self) {
        self.set(PoolCounts::default());
    }
}
