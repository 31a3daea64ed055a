//! The clock that both processes of `dlock run` measure leases by: it does not step, and on Linux
//! it counts the time that the machine is suspended, as the server's clock does.

use rustix::time::{ClockId, clock_gettime};

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: ClockId = ClockId::Monotonic;

/// Nanoseconds since some moment that all processes of this machine share.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(CLOCK);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    seconds.unwrap_or(0) * 1_000_000_000 + nanos.unwrap_or(0)
}
