//! Tests of when an outage begins and ends, with attempts of several runtimes.

use crate::link::redis::outage::Attempts;

#[test]
fn an_outage_begins_with_its_first_failure_and_ends_with_a_success() {
    let attempts = Attempts::default();
    for _ in 0..2 {
        let [one, another] = [attempts.begin(), attempts.begin()];
        assert!(attempts.failed(another));
        assert!(!attempts.failed(one));
        assert!(!attempts.failed(attempts.begin()));
        attempts.begin();
        assert_eq!(attempts.succeeded(), Some(3));
        assert_eq!(attempts.succeeded(), None);
    }
}

#[test]
fn an_attempt_that_fails_after_the_outage_begins_no_other() {
    let attempts = Attempts::default();
    let [first, late] = [attempts.begin(), attempts.begin()];
    assert!(attempts.failed(first));
    attempts.begin();
    assert_eq!(attempts.succeeded(), Some(1));
    assert!(!attempts.failed(late));
    assert_eq!(attempts.succeeded(), None);
    assert!(attempts.failed(attempts.begin()));
}
