//! How many locks a pool holds and waits for, as gauges that all pools of the process share.
//!
//! Each pool adds what has changed since it last did, and takes its part back when it ends.

/// The state of one pool, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) held: usize,
    /// Calls of this process.
    pub(crate) waiting: usize,
    pub(crate) cleaning_up: usize,
    /// Acquires and releases that are sent and not answered.
    pub(crate) in_flight: usize,
}

/// What a pool has added to the gauges.
#[derive(Debug, Default)]
pub(crate) struct Gauges(Counts);

impl Gauges {
    pub(crate) fn set(&mut self, counts: Counts) {
        let before = std::mem::replace(&mut self.0, counts);
        #[cfg(feature = "metrics")]
        super::metrics::gauges(before, counts);
        #[cfg(not(feature = "metrics"))]
        let _ = before;
    }
}

impl Drop for Gauges {
    fn drop(&mut self) {
        self.set(Counts::default());
    }
}
