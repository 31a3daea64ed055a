//! Lengths and points in time: what a holder may count on, and numbers at their limits.

use std::time::Duration;

use crate::values::fence::Fence;
use crate::values::moment::Moment;
use crate::values::ttl::{Margin, Renew, Ttl};
use crate::values::wait::Wait;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_ttl_is_10_ms_to_24_h() {
    let day = Duration::from_secs(86_400);
    for (ttl, fits) in [
        (Duration::ZERO, false),
        (ms(9), false),
        (Duration::from_nanos(9_999_999), false),
        (ms(10), true),
        (day, true),
        (day + Duration::from_nanos(1), false),
        (Duration::MAX, false),
    ] {
        assert_eq!(Ttl::new(ttl).is_ok(), fits, "{ttl:?}");
    }
}

#[test]
fn a_holder_counts_on_less_than_the_server_gives() {
    for (left, counts) in [
        (10, 7_900),
        (100, 97_000),
        (30_000, 29_698_000),
        (2, 0),
        (0, 0),
    ] {
        assert_eq!(
            Margin::DEFAULT.validity(ms(left)),
            Duration::from_micros(counts),
            "{left} ms"
        );
    }
}

#[test]
fn a_watchdog_renews_every_third_or_as_told_within_half_of_the_ttl() {
    let ttl = Ttl::new(ms(900)).unwrap();
    assert_eq!(Renew::Default.interval(ttl).unwrap(), ms(300));
    assert_eq!(Renew::Every(ms(449)).interval(ttl).unwrap(), ms(449));
    for (interval, says) in [
        (ms(450), "less than half of the ttl"),
        (Duration::ZERO, "minimum of 1ms"),
        (Duration::MAX, "less than half of the ttl"),
    ] {
        let said = Renew::Every(interval)
            .interval(ttl)
            .unwrap_err()
            .to_string();
        assert!(said.contains(says), "{said}");
    }
    assert!(
        Renew::Default.interval(Ttl::new(ms(10)).unwrap()).is_ok(),
        "the shortest ttl can be renewed"
    );
}

#[test]
fn a_moment_ends_at_never() {
    let near = Moment::from_nanos(u64::MAX - 5);
    assert_eq!(near.plus(ms(1)), Moment::NEVER);
    assert_eq!(Moment::from_nanos(7).plus(Duration::MAX), Moment::NEVER);
    assert_eq!(near.until(Moment::from_nanos(0)), Duration::ZERO);
    assert_eq!(
        Moment::from_nanos(2).until(Moment::from_nanos(9)),
        Duration::from_nanos(7)
    );
}

#[test]
fn no_time_to_wait_is_once() {
    assert_eq!(Wait::from(Duration::ZERO), Wait::Once);
    assert_eq!(Wait::from(ms(1)), Wait::For(ms(1)));
}

/// A time in µs, shifted by ten bits: fits in a signed column until the year 2255.
#[test]
fn fences_order_like_their_epochs_and_fit_a_signed_column() {
    let year_2255 = 9_000_000_000_000_000;
    let (one, two) = (Fence::new(1, 0), Fence::new(2, 0));
    assert!(one < two);
    assert_eq!(
        (one.get(), u64::from(two), two.to_string()),
        (1024, 2048, "2048".to_owned())
    );
    assert!(i64::try_from(Fence::new(year_2255, 1023).get()).is_ok());
}
