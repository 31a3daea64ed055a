//! How long a lock may be held, and how long it must be: `max_hold` and `max_renewals` bound the
//! watchdog, `min_hold` keeps the key after a quick body, `once_per` keeps its job from running again.
//!
//! They depend on each other, so they are checked in one call, with what is known then: the
//! compiler may not know the ttl, the runtime knows everything.

use crate::{
    bounds::{TTL_MAX, TTL_MIN},
    duration,
};
use std::{fmt, time::Duration};

/// The shortest period of a job: times shorter than a second are a rate, and not a period.
pub const PERIOD_MIN: Duration = Duration::from_secs(1);

/// The longest period of a job: a year.
pub const PERIOD_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// The settings of one lock about how long it is held.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    /// `None`: not known yet, so nothing is compared with it.
    pub ttl: Option<Duration>,
    /// Whether the watchdog renews the lease.
    pub renewed: bool,
    /// When a renewed lock is given up.
    pub max_hold: Option<Duration>,
    /// After this many renewals the lease runs out at its deadline.
    pub max_renewals: Option<u32>,
    /// How long the key stays after the grant, at least.
    pub min_hold: Option<Duration>,
    /// After the start of a run that succeeded, its job does not run again for so long.
    pub once_per: Option<Duration>,
}

impl Hold {
    /// All errors; empty if the settings can work.
    #[must_use]
    pub fn check(&self) -> Vec<HoldError> {
        let max_hold = self.max_hold.and_then(|max_hold| self.max_hold(max_hold));
        let max_renewals = match self.max_renewals {
            Some(_) if !self.renewed => Some(HoldError::MaxRenewalsUnrenewed),
            Some(0) => Some(HoldError::MaxRenewalsZero),
            _ => None,
        };
        let min_hold = self.min_hold.and_then(|min_hold| self.min_hold(min_hold));
        let once_per = self.once_per.and_then(|period| match period {
            _ if period < PERIOD_MIN => Some(HoldError::PeriodTooShort { period }),
            _ if period > PERIOD_MAX => Some(HoldError::PeriodTooLong { period }),
            _ => None,
        });
        // With each call of a locked function, which has mostly none of the four.
        let mut wrong = Vec::new();
        wrong.extend(max_hold);
        wrong.extend(max_renewals);
        wrong.extend(min_hold);
        wrong.extend(once_per);
        wrong
    }

    fn max_hold(&self, max_hold: Duration) -> Option<HoldError> {
        // No lease is shorter than `TTL_MIN`, so that is the least that the unknown ttl can be.
        let ttl = self.ttl.unwrap_or(TTL_MIN);
        if !self.renewed {
            Some(HoldError::MaxHoldUnrenewed)
        } else if max_hold < ttl {
            Some(HoldError::MaxHoldUnderTtl { max_hold, ttl })
        } else {
            None
        }
    }

    fn min_hold(&self, min_hold: Duration) -> Option<HoldError> {
        let longer = |than: Option<Duration>| than.filter(|than| min_hold > *than);
        if min_hold < TTL_MIN {
            return Some(HoldError::MinHoldTooShort { min_hold });
        }
        if min_hold > TTL_MAX {
            return Some(HoldError::MinHoldTooLong { min_hold });
        }
        if let Some(max_hold) = longer(self.max_hold) {
            return Some(HoldError::MinHoldOverMaxHold { min_hold, max_hold });
        }
        longer(self.ttl)
            .filter(|_| !self.renewed)
            .map(|ttl| HoldError::MinHoldOverTtl { min_hold, ttl })
    }
}

/// Settings that can't work; the `Display` states the bound and the fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldError {
    /// `max_hold` on a lock that is not renewed: its ttl bounds it already.
    MaxHoldUnrenewed,
    /// `max_hold` ends before the first lease.
    MaxHoldUnderTtl {
        /// The requested bound.
        max_hold: Duration,
        /// The lease, or the shortest possible one.
        ttl: Duration,
    },
    /// `max_renewals` on a lock that is not renewed.
    MaxRenewalsUnrenewed,
    /// `max_renewals` is 0: the watchdog may not renew.
    MaxRenewalsZero,
    /// `min_hold` is shorter than any lease.
    MinHoldTooShort {
        /// The requested time.
        min_hold: Duration,
    },
    /// `min_hold` is longer than any lease.
    MinHoldTooLong {
        /// The requested time.
        min_hold: Duration,
    },
    /// The lock is given up before `min_hold` is over.
    MinHoldOverMaxHold {
        /// The requested time.
        min_hold: Duration,
        /// When the lock is given up.
        max_hold: Duration,
    },
    /// The lease, which is not renewed, ends before `min_hold`.
    MinHoldOverTtl {
        /// The requested time.
        min_hold: Duration,
        /// The lease.
        ttl: Duration,
    },
    /// `once_per` is shorter than [`PERIOD_MIN`].
    PeriodTooShort {
        /// The requested time.
        period: Duration,
    },
    /// `once_per` is longer than [`PERIOD_MAX`].
    PeriodTooLong {
        /// The requested time.
        period: Duration,
    },
}

impl HoldError {
    /// The argument that it is about, as written in the attribute.
    #[must_use]
    pub fn argument(&self) -> &'static str {
        match self {
            Self::MaxHoldUnrenewed | Self::MaxHoldUnderTtl { .. } => "max_hold",
            Self::MaxRenewalsUnrenewed | Self::MaxRenewalsZero => "max_renewals",
            Self::MinHoldTooShort { .. }
            | Self::MinHoldTooLong { .. }
            | Self::MinHoldOverMaxHold { .. }
            | Self::MinHoldOverTtl { .. } => "min_hold",
            Self::PeriodTooShort { .. } | Self::PeriodTooLong { .. } => "once_per",
        }
    }
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = duration::format;
        match *self {
            Self::MaxHoldUnrenewed => f.write_str(
                "max_hold ends renewals, and this lock is not renewed: add `renew`, or let the ttl be the bound",
            ),
            Self::MaxHoldUnderTtl { max_hold, ttl } => write!(
                f,
                "max_hold {} is shorter than a ttl of {}: raise it, or shorten the ttl",
                show(max_hold),
                show(ttl)
            ),
            Self::MaxRenewalsUnrenewed => f.write_str(
                "max_renewals counts renewals, and this lock is not renewed: add `renew`, or leave max_renewals out",
            ),
            Self::MaxRenewalsZero => {
                f.write_str("max_renewals 0 would never renew: give at least 1, or leave `renew` out")
            }
            Self::MinHoldTooShort { min_hold } => write!(
                f,
                "min_hold {} is shorter than the minimum of 10ms: raise it, or leave it out to free the key when the body ends",
                show(min_hold)
            ),
            Self::MinHoldTooLong { min_hold } => write!(
                f,
                "min_hold {} is longer than the maximum of 24h: shorten it, or put the date into the key",
                duration::format_in_hours(min_hold)
            ),
            Self::MinHoldOverMaxHold { min_hold, max_hold } => write!(
                f,
                "min_hold {} is longer than the max_hold {}, at which the lock is given up: shorten min_hold or raise max_hold",
                show(min_hold),
                show(max_hold)
            ),
            Self::MinHoldOverTtl { min_hold, ttl } => write!(
                f,
                "min_hold {} is longer than the ttl {}, at which the lock ends: raise the ttl or add `renew`",
                show(min_hold),
                show(ttl)
            ),
            Self::PeriodTooShort { period } => write!(
                f,
                "once_per {} is shorter than the minimum of 1s: raise it, or use `min_hold` to keep the key for so long",
                show(period)
            ),
            Self::PeriodTooLong { period } => write!(
                f,
                "once_per {} is longer than the maximum of 366d: shorten it, or record the run in a database",
                show(period)
            ),
        }
    }
}

impl std::error::Error for HoldError {}

#[cfg(test)]
mod tests;
