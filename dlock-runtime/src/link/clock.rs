//! The clocks that measure leases. None of them steps, and the clock for Redis counts the time that
//! the machine is suspended. This file reads time only; it sets no timers.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::values::moment::Moment;

/// A pool's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// `CLOCK_BOOTTIME`: goes on while the machine is suspended, as the server's clock does.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    Boot,
    /// The best clock that the standard library has; it may stop while the machine is suspended.
    #[cfg_attr(
        any(target_os = "linux", target_os = "android"),
        allow(dead_code, reason = "for other systems")
    )]
    Monotonic(Instant),
    /// Tokio's clock, which a test may pause.
    Tokio(tokio::time::Instant),
}

impl Clock {
    /// The clock for a server on another machine.
    pub(crate) fn real() -> Self {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        return Clock::Boot;
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        return Clock::Monotonic(Instant::now());
    }

    /// The clock for a server in this process.
    pub(crate) fn pausable() -> Self {
        Clock::Tokio(tokio::time::Instant::now())
    }

    pub(crate) fn now(self) -> Moment {
        let nanos = match self {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            Clock::Boot => {
                let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                let (secs, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
                return Moment::from_nanos(secs.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0));
            }
            Clock::Monotonic(origin) => origin.elapsed().as_nanos(),
            Clock::Tokio(origin) => origin.elapsed().as_nanos(),
        };
        Moment::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// This machine's wall clock, in µs since 1970; 0 if it is before that.
pub(crate) fn wall_clock() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| i128::try_from(it.as_micros()).unwrap_or(i128::MAX))
}
