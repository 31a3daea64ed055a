//! Since when a hold is known, from look to look.

use std::sync::Arc;
use std::time::Duration;

use super::KnownHolds;
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::spec::AcquireSpec;
use crate::client::tokens::Attempt;
use crate::driver::lease_cell::LeaseCell;
use crate::link::clock::Clock;
use crate::observe::ObservedHold;
use crate::rules::commands::Claim;
use crate::values::bounds::Bounds;
use crate::values::config::SpanLevel;
use crate::values::error::LostCause;
use crate::values::fence::Fence;
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::Token;
use crate::values::ttl::{Margin, Ttl};

const S: Duration = Duration::from_secs(1);

/// A hold under this token.
fn cell(token: u8) -> Arc<LeaseCell> {
    let (ttl, clock) = (Ttl::new(60 * S).unwrap(), Clock::real());
    let terms = LeaseTerms {
        ttl,
        renew: None,
        bounds: Bounds::default(),
        margin: Margin::DEFAULT,
    };
    let attempt = Attempt {
        token: Token::of_test(token.into()),
        claim: Claim {
            is_once: false,
            key: "lock:x".into(),
            value: "1".into(),
            queues: true,
        },
    };
    let spec = AcquireSpec::of_test("lock:x", terms);
    let lease = Lease::granted(clock.now(), ttl.get(), &terms);
    Arc::new(LeaseCell::new(Home::here(), &spec, attempt, clock, &lease))
}

/// A look after so many seconds sees these, held for so many seconds each.
#[track_caller]
fn check(known: &mut KnownHolds, after: u64, held: &[&Arc<LeaseCell>], expected: &[u32]) {
    let held: Vec<_> = held.iter().map(|it| Arc::clone(it)).collect();
    let held_for = known.see(&held, Moment::default().plus(S * after.try_into().unwrap()));
    let expected: Vec<_> = expected.iter().map(|it| S * *it).collect();
    assert_eq!((held_for, known.0.len()), (expected, held.len()));
}

#[test]
fn a_hold_counts_from_the_first_look_that_sees_it() {
    let (one, other) = (cell(1), cell(2));
    let mut known = KnownHolds::default();
    check(&mut known, 10, &[&one], &[0]);
    check(&mut known, 11, &[&other, &one], &[0, 1]);
    check(&mut known, 14, &[&one, &other], &[4, 3]);
    check(&mut known, 15, &[&other], &[4]);
    check(&mut known, 16, &[&one, &other], &[0, 5]); // seen anew
    check(&mut known, 17, &[], &[]);
}

/// As after a process was suspended, where a look may be due before the lease's end is noticed.
#[test]
fn a_hold_whose_lease_is_over_is_not_said_to_be_held() {
    let [held, over, released] = [cell(1), cell(2), cell(3)];
    for cell in [&held, &over, &released] {
        let asked = cell.spec().asked();
        let observed = ObservedHold::begins(asked, None, Fence::new(1, 0), SpanLevel::Debug);
        cell.begins(observed);
    }
    over.lose(LostCause::Deadline);
    released.release();
    assert_eq!(
        [&held, &over, &released].map(|cell| cell.log_as_long(S)),
        [true, false, false]
    );
}

/// Even if the allocator gives the next holder the memory of the one before.
#[test]
fn a_lock_that_was_handed_on_under_its_token_is_a_new_hold() {
    let mut known = KnownHolds::default();
    for after in 0..100 {
        let holder = cell(1);
        check(&mut known, after, &[&holder], &[0]);
    }
}
