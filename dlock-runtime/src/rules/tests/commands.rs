//! Until when an acquire may be executed.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert, proptest};

use crate::rules::commands::Acquire;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn it_loses_a_thirty_second_of_the_wait_at_most(time in 1_u64..1 << 60, within in 0_u64..1 << 50) {
        let not_after = Acquire::not_after(time, Duration::from_micros(within));
        prop_assert!(not_after <= time + within);
        prop_assert!(not_after >= time + within - within / 32);
    }

    #[test]
    fn no_wait_is_too_long(time in any::<u64>()) {
        let not_after = Acquire::not_after(time, Duration::MAX);
        prop_assert!(not_after > u64::MAX / 32 * 31);
    }
}

/// Half a second is a command timeout.
#[test]
fn what_is_asked_within_some_ms_has_the_same() {
    let half = Duration::from_millis(500);
    let asked = (0..8_000).map(|it| Acquire::not_after(1_795_000_000_000_000 + it, half));
    assert!(asked.collect::<BTreeSet<_>>().len() <= 2);
}
