//! The length of a lease, checked once, and how much of it the holder may count on.
//!
//! It computes with lengths only; `client::lease` counts them from a moment.

use std::time::Duration;

use dlock_grammar::bounds::{self, BoundError};

/// A lease's length: between 10 ms and 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ttl {
    /// In 8 bytes: a `Duration` has 16, and each lock keeps two lengths.
    nanos: u64,
}

impl Ttl {
    /// Of a lock that says nothing about it.
    pub(crate) const DEFAULT: Ttl = Ttl {
        nanos: 30_000_000_000,
    };

    /// With several nodes, the longest lease of a fleet that says nothing about it.
    pub(crate) const MOST_OF_SEVERAL: Ttl = Ttl {
        nanos: 60_000_000_000,
    };

    pub(crate) fn new(ttl: Duration) -> Result<Self, BoundError> {
        bounds::check_ttl(ttl)?;
        let nanos = u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX); // in bounds, so it fits
        Ok(Self { nanos })
    }

    pub(crate) fn get(self) -> Duration {
        Duration::from_nanos(self.nanos)
    }

    /// Whole milliseconds, as Redis takes them.
    pub(crate) fn as_millis(self) -> u64 {
        self.nanos / 1_000_000
    }
}

/// By how much the server's clock may run faster or slower than ours while a lease lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Margin {
    percent: u32,
}

impl Margin {
    /// Enough for clocks that are slewed by some thousand ppm.
    pub(crate) const DEFAULT: Margin = Margin { percent: 1 };

    pub(crate) const MOST: u32 = 20;

    /// `None`: out of range.
    pub(crate) fn percent(percent: usize) -> Option<Self> {
        let percent = u32::try_from(percent).ok()?;
        (Self::DEFAULT.percent..=Self::MOST)
            .contains(&percent)
            .then_some(Self { percent })
    }

    /// How much the holder may count on of a lease with `left` at the server, from the moment at
    /// which it *sent* the request: `left` less the margin, and 2 ms for the granularity of timers.
    pub(crate) fn validity(self, left: Duration) -> Duration {
        let nanos = u64::try_from(left.as_nanos()).unwrap_or(u64::MAX);
        let margin = nanos / 100 * u64::from(self.percent) + 2_000_000;
        Duration::from_nanos(nanos.saturating_sub(margin))
    }

    /// By how many ppm the server's clock may run faster than ours.
    pub(crate) fn fastest_ppm(self) -> i64 {
        i64::from(self.percent) * 1_000_000 / i64::from(100 - self.percent)
    }

    /// By how many ppm it may run slower, as a negative number.
    pub(crate) fn slowest_ppm(self) -> i64 {
        i64::from(self.percent) * -10_000
    }

    /// The least time that our clock shows while the server's shows this.
    pub(crate) fn at_least(self, at_the_server: Duration) -> Duration {
        at_the_server.saturating_sub(at_the_server / 100 * self.percent)
    }

    /// The most time that our clock shows meanwhile.
    pub(crate) fn at_most(self, at_the_server: Duration) -> Duration {
        at_the_server / (100 - self.percent) * 100
    }
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How often the watchdog renews a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renew {
    /// Every third of the lease.
    Default,
    /// At this interval, which is less than half of the lease.
    Every(Duration),
}

impl Renew {
    /// The interval for a lease of this length.
    pub(crate) fn interval(self, ttl: Ttl) -> Result<Duration, BoundError> {
        let interval = match self {
            Renew::Default => ttl.get() / 3,
            Renew::Every(interval) => interval,
        };
        bounds::check_renew(interval, ttl.get())?;
        Ok(interval)
    }
}
