//! A point on the pool's clock, in nanoseconds since an origin that only the clock knows.
//!
//! The state machines compute with it; they never read a clock.

use std::time::Duration;

/// A point on the pool's clock; comparable only with moments of the same pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Beyond the reach of any timer (584 years).
    pub(crate) const NEVER: Moment = Moment(u64::MAX);

    pub(crate) const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This moment, `by` later; [`Moment::NEVER`] if that is out of range.
    pub(crate) fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(nanos(by)))
    }

    /// The time from this moment until `later`; zero if `later` has passed.
    pub(crate) fn until(self, later: Moment) -> Duration {
        Duration::from_nanos(later.0.saturating_sub(self.0))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
