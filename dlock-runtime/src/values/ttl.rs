//! How long a lease lasts, checked once, and how much of it the holder may count on.

use std::time::Duration;

use dlock_grammar::bounds::{self, BoundError};

use super::error::LockError;

/// A lease's length: between 10 ms and 24 h.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ttl(Duration);

impl Ttl {
    pub(crate) fn new(ttl: Duration) -> Result<Self, LockError> {
        Self::checked(ttl).map_err(LockError::config)
    }

    /// [`Ttl::new`], for who collects what is wrong.
    pub(crate) fn checked(ttl: Duration) -> Result<Self, BoundError> {
        bounds::check_ttl(ttl)?;
        Ok(Self(ttl))
    }

    pub(crate) fn get(self) -> Duration {
        self.0
    }

    /// What the holder may count on from the moment it *sent* the request: the lease less 1 % for
    /// clocks that run at different rates and 2 ms for the granularity of timers.
    pub(crate) fn validity(self) -> Duration {
        validity(self.0)
    }

    /// Whole milliseconds, as Redis takes them.
    pub(crate) fn as_millis(self) -> u64 {
        millis(self.0)
    }
}

/// A lease of `left` on the server, less the margin (see [`Ttl::validity`]).
pub(crate) fn validity(left: Duration) -> Duration {
    left.saturating_sub(left / 100 + Duration::from_millis(2))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// How often a watchdog renews.
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
