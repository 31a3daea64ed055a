//! The bounds of a lease and of its renewal interval.
//!
//! A value is checked as soon as it is known: a written `ttl` when compiling, a pool's default when
//! it is configured, and a pair of them when a lock is acquired.

use crate::duration;
use std::{fmt, time::Duration};

/// The shortest lease: below it a network round trip takes most of the lease.
pub const TTL_MIN: Duration = Duration::from_millis(10);

/// The longest lease: the longest that a crashed holder can block others. Longer work renews
/// instead.
pub const TTL_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Checks a lease against [`TTL_MIN`] and [`TTL_MAX`].
///
/// # Errors
///
/// [`BoundError`], whose text says the bound and the fix.
pub fn check_ttl(ttl: Duration) -> Result<(), BoundError> {
    if ttl < TTL_MIN {
        Err(BoundError::TtlTooShort { ttl })
    } else if ttl > TTL_MAX {
        Err(BoundError::TtlTooLong { ttl })
    } else {
        Ok(())
    }
}

/// Checks a renewal interval: more than zero and less than half of the lease, so that one failed
/// renewal can be repeated before the lease ends.
///
/// # Errors
///
/// [`BoundError`], whose text says the bound and the fix.
pub fn check_renew(every: Duration, ttl: Duration) -> Result<(), BoundError> {
    check_renew_alone(every)?;
    // `None` is an overflow: more than any lease.
    if every.checked_mul(2).is_none_or(|twice| twice >= ttl) {
        Err(BoundError::RenewTooLong { every, ttl })
    } else {
        Ok(())
    }
}

/// The part of [`check_renew`] that needs no lease.
///
/// # Errors
///
/// [`BoundError`], whose text says the bound and the fix.
pub fn check_renew_alone(every: Duration) -> Result<(), BoundError> {
    if every < Duration::from_millis(1) {
        Err(BoundError::RenewTooShort { every })
    } else {
        Ok(())
    }
}

/// A duration out of bounds; its `Display` states the bound and the fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BoundError {
    /// The lease is shorter than [`TTL_MIN`].
    TtlTooShort {
        /// The requested lease.
        ttl: Duration,
    },
    /// The lease is longer than [`TTL_MAX`].
    TtlTooLong {
        /// The requested lease.
        ttl: Duration,
    },
    /// The renewal interval is shorter than 1 ms, the unit in which leases are counted.
    RenewTooShort {
        /// The requested interval.
        every: Duration,
    },
    /// The renewal interval is not less than half of the lease.
    RenewTooLong {
        /// The requested interval.
        every: Duration,
        /// The lease it would renew.
        ttl: Duration,
    },
}

impl fmt::Display for BoundError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TtlTooShort { ttl } => {
                write!(
                    f,
                    "ttl {} is shorter than the minimum of 10ms: give the lease more time",
                    duration::format(ttl)
                )
            }
            Self::TtlTooLong { ttl } => {
                write!(
                    f,
                    "ttl {} is longer than the maximum of 24h: use a shorter ttl and `renew`",
                    duration::format_in_hours(ttl)
                )
            }
            Self::RenewTooShort { every } => write!(
                f,
                "renewal interval {} is shorter than the minimum of 1ms: leave it out to renew every third of the ttl",
                duration::format(every)
            ),
            Self::RenewTooLong { every, ttl } => write!(
                f,
                "renewal interval {} must be less than half of the ttl {}, so that a failed renewal can be repeated: \
                 shorten the interval or leave it out to renew every third of the ttl",
                duration::format(every),
                duration::format(ttl)
            ),
        }
    }
}

impl std::error::Error for BoundError {}

#[cfg(test)]
mod tests {
    use super::{Duration, TTL_MAX, TTL_MIN, check_renew, check_ttl};

    const MS: Duration = Duration::from_millis(1);

    #[track_caller]
    fn check<E: ToString>(result: Result<(), E>, expected: &str) {
        assert_eq!(result.map_err(|e| e.to_string()), Err(expected.to_owned()));
    }

    #[test]
    fn ttl() {
        assert_eq!(check_ttl(TTL_MIN), Ok(()));
        assert_eq!(check_ttl(TTL_MAX), Ok(()));
        check(
            check_ttl(9 * MS),
            "ttl 9ms is shorter than the minimum of 10ms: give the lease more time",
        );
        check(
            check_ttl(Duration::ZERO),
            "ttl 0s is shorter than the minimum of 10ms: give the lease more time",
        );
        check(
            check_ttl(TTL_MAX + MS),
            "ttl 24h1ms is longer than the maximum of 24h: use a shorter ttl and `renew`",
        );
    }

    #[test]
    fn renew() {
        assert_eq!(check_renew(4 * MS, 10 * MS), Ok(()));
        assert_eq!(check_renew(5 * MS, 11 * MS), Ok(()));
        check(
            check_renew(5 * MS, 10 * MS),
            "renewal interval 5ms must be less than half of the ttl 10ms, so that a failed renewal can be repeated: \
             shorten the interval or leave it out to renew every third of the ttl",
        );
        check(
            check_renew(Duration::ZERO, 10 * MS),
            "renewal interval 0s is shorter than the minimum of 1ms: leave it out to renew every third of the ttl",
        );
        assert!(check_renew(Duration::MAX, Duration::MAX).is_err());
    }
}
