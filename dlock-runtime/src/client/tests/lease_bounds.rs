//! A lease and its bounds: a short grant and how it is made whole, `max_hold`, `max_renewals`,
//! `min_hold`.

use std::time::Duration;

use super::{at, ms, terms, ttl};
use crate::client::lease::{Due, Lease, LeaseTerms};
use crate::values::bounds::Bounds;
use crate::values::error::LostCause;
use crate::values::moment::Moment;

/// The validity of 3000 ms.
const CLAIM: u64 = 3000 - 30 - 2;
/// The validity of 9000 ms.
const WHOLE: u64 = 9000 - 90 - 2;

/// Terms of 9 s.
fn bound(renew: Option<u64>, bounds: Bounds) -> LeaseTerms {
    LeaseTerms {
        bounds,
        ..terms(9000, renew)
    }
}

/// Granted from the queue at 0: 3 s of the 9.
fn claimed(renew: Option<u64>, max_renewals: Option<u32>) -> Lease {
    let bounds = Bounds {
        max_renewals,
        ..Bounds::default()
    };
    Lease::granted(at(0), ms(3000), &bound(renew, bounds))
}

/// Granted by its own acquire at 0, for all of the 9 s.
fn whole(renew: Option<u64>, bounds: Bounds) -> Lease {
    Lease::granted(at(0), ms(9000), &bound(renew, bounds))
}

fn max_hold(max_hold: u64) -> Bounds {
    Bounds {
        max_hold: Some(ms(max_hold)),
        ..Bounds::default()
    }
}

fn max_renewals(most: u32) -> Bounds {
    Bounds {
        max_renewals: Some(most),
        ..Bounds::default()
    }
}

fn renew(lease: &mut Lease, millis: u64) {
    assert_eq!(lease.due(at(millis)), Due::Renewal, "at {millis}");
    lease.renewing();
    lease.renewed(at(millis));
}

#[test]
fn a_short_grant_is_made_whole_at_a_third_of_what_was_given() {
    for (watchdog, first, then) in [
        (None, 1000, None),
        (Some(3000), 1000, Some(4000)),
        (Some(400), 400, Some(800)), // the watchdog's own interval is shorter
    ] {
        let mut lease = claimed(watchdog, None);
        assert_eq!((lease.deadline(), lease.next()), (at(CLAIM), at(first)));
        assert_eq!(lease.due(at(first - 1)), Due::Nothing);
        renew(&mut lease, first);
        assert_eq!(lease.deadline(), at(first + WHOLE));
        assert_eq!(lease.next(), then.map_or(lease.deadline(), at));
    }
}

#[test]
fn a_short_grant_that_could_not_be_made_whole_tries_again() {
    for watchdog in [None, Some(3000)] {
        let mut lease = claimed(watchdog, Some(1));
        for sent in [1000, 1350, 1700] {
            assert_eq!(lease.due(at(sent)), Due::Renewal, "{watchdog:?}");
            lease.renewing();
            assert_eq!(lease.next(), at(CLAIM), "the deadline is not hidden");
            lease.renewal_failed(at(sent + 100));
            assert_eq!(lease.next(), at(sent + 350));
        }
        assert_eq!(lease.deadline(), at(CLAIM));
        renew(&mut lease, 2050);
        assert_eq!(lease.deadline(), at(2050 + WHOLE));
        assert_eq!(lease.cause(), LostCause::Deadline, "none of them counted");
    }
}

#[test]
fn a_short_grant_keeps_its_time_when_others_are_renewed() {
    let lease = claimed(Some(3000), None);
    assert!(!lease.may_renew_early(at(999)));
    assert_eq!(claimed(None, None).early_renewals_until(at(1000)), None);
}

#[test]
fn a_holder_that_extends_makes_a_short_grant_whole_itself() {
    for (watchdog, by, next) in [
        (None, 8999, at(1000)), // less than the ttl: still short
        (None, 9000, Moment::NEVER),
        (Some(3000), 8999, at(1000)),
        (Some(3000), 9000, at(3500)),
    ] {
        let mut lease = claimed(watchdog, None);
        lease.extended(at(500), ttl(by));
        assert_eq!(lease.next(), next.min(lease.deadline()), "{by}");
    }
}

/// The renewal that makes it whole was sent before the holder extended, and is answered after that.
#[test]
fn a_making_whole_that_the_holder_was_faster_than_is_still_no_renewal() {
    let mut lease = claimed(Some(3000), Some(1));
    lease.renewing();
    lease.extended(at(1100), ttl(9000));
    lease.renewed(at(1000));
    assert_eq!(lease.cause(), LostCause::Deadline);
    renew(&mut lease, 4000);
    assert_eq!(lease.cause(), LostCause::MaxRenewals);
}

#[test]
fn what_is_not_renewed_does_not_begin_to_be_because_one_failed() {
    let mut lease = claimed(None, None);
    lease.renewing();
    lease.extended(at(1100), ttl(9000));
    lease.renewal_failed(at(1200));
    assert_eq!(lease.next(), lease.deadline());
    assert_eq!(lease.due(at(5000)), Due::Nothing);
}

#[test]
fn only_what_the_terms_ask_for_counts_of_what_is_left() {
    let lease = Lease::granted(at(0), ms(60_000), &terms(9000, Some(3000)));
    assert_eq!((lease.deadline(), lease.next()), (at(WHOLE), at(3000)));
    assert_eq!(lease.longest(), ms(60_000), "but the key may stay for it");
}

#[test]
fn max_hold_ends_it_whatever_was_given() {
    for (lasts, deadline, cause) in [
        (5000, 5000, LostCause::MaxHold),
        (WHOLE, WHOLE, LostCause::MaxHold),
        (WHOLE + 1, WHOLE, LostCause::Deadline),
    ] {
        let lease = whole(None, max_hold(lasts));
        assert_eq!((lease.deadline(), lease.cause()), (at(deadline), cause));
        assert_eq!(lease.due(at(deadline - 1)), Due::Nothing);
        assert_eq!(lease.due(at(deadline)), Due::End(cause));
    }
}

#[test]
fn max_hold_counts_from_the_grant_and_caps_renewals_and_extensions() {
    let terms = bound(Some(3000), max_hold(10_000));
    let mut lease = Lease::granted(at(500), ms(9000), &terms);
    assert_eq!(lease.due(at(3500)), Due::Renewal);
    lease.renewing();
    lease.renewed(at(3500));
    let ends = (at(10_500), LostCause::MaxHold);
    assert_eq!((lease.deadline(), lease.cause()), ends);

    let mut lease = Lease::granted(at(500), ms(9000), &terms);
    lease.extended(at(600), ttl(20_000));
    assert_eq!((lease.deadline(), lease.cause()), ends);
}

#[test]
fn after_the_last_renewal_it_runs_out() {
    let mut lease = whole(Some(3000), max_renewals(2));
    renew(&mut lease, 3000);
    assert_eq!(lease.cause(), LostCause::Deadline, "one is left");
    lease.renewing();
    lease.renewal_failed(at(6000));
    assert_eq!(lease.cause(), LostCause::Deadline, "a failure is none");
    renew(&mut lease, 6250);
    let end = at(6250 + WHOLE);
    assert_eq!((lease.deadline(), lease.next()), (end, end), "no more come");
    assert_eq!(lease.early_renewals_until(at(7000)), None);
    assert!(!lease.may_renew_early(at(14_000)));
    assert_eq!(lease.due(at(6250 + WHOLE - 1)), Due::Nothing);
    assert_eq!(lease.due(end), Due::End(LostCause::MaxRenewals));
}

#[test]
fn making_a_short_grant_whole_is_no_renewal() {
    let mut lease = claimed(Some(3000), Some(1));
    renew(&mut lease, 1000);
    assert_eq!(lease.cause(), LostCause::Deadline, "one is left");
    renew(&mut lease, 4000);
    let end = Due::End(LostCause::MaxRenewals);
    assert_eq!(lease.due(at(4000 + WHOLE)), end);
    assert_eq!(lease.next(), lease.deadline());
}

#[test]
fn no_renewal_at_all_is_a_bound_too() {
    let lease = whole(Some(3000), max_renewals(0));
    assert_eq!(lease.next(), lease.deadline());
    assert_eq!(lease.cause(), LostCause::MaxRenewals);
    let mut claimed = claimed(Some(3000), Some(0));
    renew(&mut claimed, 1000); // it has not had its ttl yet
    assert_eq!(claimed.next(), claimed.deadline());
}

#[test]
fn max_hold_is_the_cause_where_both_bounds_are_met() {
    let bounds = Bounds {
        max_renewals: Some(1),
        ..max_hold(10_000)
    };
    let mut lease = whole(Some(3000), bounds);
    renew(&mut lease, 3000);
    assert_eq!(lease.due(at(10_000)), Due::End(LostCause::MaxHold));
}

#[test]
fn the_server_keeps_the_key_for_min_hold_and_the_holder_counts_on_its_ttl() {
    for (min_hold, server) in [
        (None, 9000),
        (Some(ms(8999)), 9000),
        (Some(ms(60_000)), 60_000),
        (Some(Duration::from_secs(86_401)), 9000), // no lease: refused when it is configured
    ] {
        let bounds = Bounds {
            min_hold,
            ..Bounds::default()
        };
        let terms = bound(None, bounds);
        assert_eq!(terms.lease(), ttl(server), "{min_hold:?}");
        let lease = Lease::granted(at(0), terms.lease().get(), &terms);
        assert_eq!(lease.deadline(), at(WHOLE));
        assert_eq!(lease.next(), at(WHOLE), "nothing to make whole");
        assert_eq!(lease.longest(), ms(server));
        let claimed = Lease::granted(at(0), ms(3000), &terms);
        assert_eq!(claimed.longest(), ms(server), "it may yet get it all");
    }
}
