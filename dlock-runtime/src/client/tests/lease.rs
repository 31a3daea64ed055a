//! One lease: its deadline, and when its renewal is due.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{ProptestConfig, any};
use proptest::test_runner::RngSeed;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::{at, ms, terms, ttl};
use crate::client::lease::{Due, Lease, LeaseTerms};
use crate::values::bounds::Bounds;
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

const OVER: Due = Due::End(LostCause::Deadline);

/// A lease that was granted for its whole ttl.
fn granted(since: Moment, length: u64, renew: Option<u64>) -> Lease {
    Lease::granted(since, ms(length), &terms(length, renew))
}

#[test]
fn a_lease_counts_from_when_it_was_asked_for_less_the_margin() {
    let lease = granted(at(500), 1000, None);
    assert_eq!(lease.deadline(), at(500 + 1000 - 10 - 2));
    assert_eq!(lease.next(), lease.deadline());
    assert_eq!(lease.due(at(1487)), Due::Nothing);
    assert_eq!(lease.due(at(1488)), OVER);
}

#[test]
fn a_lease_that_was_found_lasts_what_was_left_of_it() {
    let lease = Lease::granted(at(500), ms(200), &terms(1000, None));
    assert_eq!(lease.deadline(), at(500 + 200 - 2 - 2));
    let over = Lease::granted(at(500), Duration::ZERO, &terms(1000, Some(300)));
    assert_eq!((over.deadline(), over.due(at(500))), (at(500), OVER));
}

#[test]
fn a_renewal_is_due_at_its_interval_and_once() {
    let mut lease = granted(at(0), 900, Some(300));
    assert_eq!(
        (lease.next(), lease.due(at(299)), lease.due(at(300))),
        (at(300), Due::Nothing, Due::Renewal)
    );
    lease.renewing();
    assert!(lease.is_renewing());
    assert_eq!(lease.due(at(301)), Due::Nothing);
    assert_eq!(
        lease.next(),
        lease.deadline(),
        "a renewal that hangs does not hide the deadline"
    );
    assert_eq!(lease.due(lease.deadline()), OVER);
}

#[test]
fn a_renewal_counts_from_when_it_was_sent() {
    let mut lease = granted(at(0), 900, Some(300));
    lease.renewing();
    lease.renewed(at(310));
    assert!(!lease.is_renewing());
    assert_eq!(
        (lease.deadline(), lease.next()),
        (at(310 + 900 - 9 - 2), at(610))
    );
}

#[test]
fn a_failed_renewal_is_repeated_soon() {
    for (length, pause) in [(900, 90), (2500, 250), (30_000, 250)] {
        let mut lease = granted(at(0), length, Some(length / 3));
        let deadline = lease.deadline();
        lease.renewing();
        lease.renewal_failed(at(400));
        assert_eq!(
            (lease.next(), lease.deadline()),
            (at(400 + pause), deadline),
            "{length}"
        );
    }
}

#[test]
fn a_lease_may_be_renewed_a_quarter_of_its_interval_early() {
    let mut lease = granted(at(0), 1200, Some(400));
    assert!(!lease.may_renew_early(at(299)));
    assert!(lease.may_renew_early(at(300)));
    assert_eq!(lease.early_renewals_until(at(400)), Some(at(500)));
    lease.renewing();
    assert!(!lease.may_renew_early(at(300)), "one is on its way");
    let unwatched = granted(at(0), 1200, None);
    assert!(
        !unwatched.may_renew_early(at(1000)) && unwatched.early_renewals_until(at(0)).is_none()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default() })]

    /// After any events in any order: the deadline never moves back, is never later than a command
    /// gave, counted from when that was sent, and never later than `max_hold`.
    #[test]
    fn the_deadline_only_grows_and_never_past_what_was_given(
        length in 10..5000u64,
        left in 0..6000u64,
        events in vec((0..4u8, 0..2000u64, 10..5000u64), 0..30),
        watched in any::<bool>(),
        max_hold in option::of(1..20_000u64),
        max_renewals in option::of(1..5u32),
    ) {
        let bounds = Bounds { once_per: None, max_hold: max_hold.map(ms), max_renewals, min_hold: None };
        let terms = LeaseTerms { bounds, ..terms(length, watched.then_some(length / 3)) };
        let mut lease = Lease::granted(at(0), ms(left), &terms);
        let ends = max_hold.map_or(Moment::NEVER, at);
        let (mut now, mut given) = (0, at(0).plus(Margin::DEFAULT.validity(ms(length.min(left)))).min(ends));
        prop_assert_eq!(lease.deadline(), given);
        for (event, step, by) in events {
            now += step;
            let (before, sent) = (lease.deadline(), at(now.saturating_sub(by / 2)));
            match event {
                0 => lease.renewing(),
                1 => {
                    lease.renewed(sent);
                    given = given.max(sent.plus(Margin::DEFAULT.validity(ms(length))));
                }
                2 => lease.renewal_failed(at(now)),
                _ => {
                    lease.extended(sent, ttl(by));
                    given = given.max(sent.plus(Margin::DEFAULT.validity(ms(by))));
                }
            }
            prop_assert!(lease.deadline() >= before);
            prop_assert!(lease.deadline() <= given.min(ends));
            prop_assert!(lease.next() <= lease.deadline());
            prop_assert_eq!(lease.due(lease.deadline()), Due::End(lease.cause()));
            prop_assert_eq!(lease.cause() == LostCause::MaxHold, lease.deadline() == ends);
        }
    }
}
