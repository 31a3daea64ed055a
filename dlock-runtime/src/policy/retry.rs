//! When to try again: a lock that somebody else holds, a server that does not answer.

use std::time::Duration;

/// Spreads timers of many processes; seeded, so that a test can repeat it (`SplitMix64`, Steele 2014).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Jitter(u64);

impl Jitter {
    pub(crate) fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Between nothing and `most`.
    fn up_to(&mut self, most: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^= z >> 31;
        let share = u32::try_from(z >> 48).unwrap_or_default(); // 16 bits
        most * share / 0x1_0000
    }
}

/// A lock that changes hands faster is not looked at more often.
const AT_LEAST: Duration = Duration::from_millis(20);

/// How long to sleep before looking again at a lock whose holder has `left`: until then, but at most
/// `cap`, and a tenth more so that waiters do not march in step.
pub(crate) fn after_busy(left: Duration, cap: Duration, jitter: &mut Jitter) -> Duration {
    let pause = left.max(AT_LEAST).min(cap);
    pause + Duration::from_millis(1) + jitter.up_to(pause / 10)
}

/// How long to sleep after the `failures`th failure in a row: 25 ms, doubled up to 800 ms, half of it random.
pub(crate) fn after_failure(failures: u32, jitter: &mut Jitter) -> Duration {
    let full = Duration::from_millis(25) * (1 << failures.saturating_sub(1).min(5));
    full / 2 + jitter.up_to(full / 2)
}
