//! The entries and their timeline stay in step, even for tokens and slots that should not exist.
use super::{Entries, SIFT_AT_LEAST, Timeline, TokenStage};
use crate::rules::commands::Claim;
use crate::values::moment::Moment;
use crate::values::token::Token;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn claim() -> Claim {
    Claim {
        is_once: false,
        key: "k".into(),
        value: "v".into(),
        queues: false,
    }
}

fn with(token: Token, next_check: Moment) -> Entries<u64> {
    let mut entries = Entries::default();
    entries.insert(token, claim());
    entries.enter(token, next_check, TokenStage::Waiting);
    entries
}

#[test]
fn a_token_that_enters_twice_leaves_nothing_in_the_timeline() {
    let token = Token::of_test(1);
    let mut entries = with(token, at(5));
    entries.insert(token, claim());
    assert_eq!(entries.first_check(), None);
}

#[test]
fn a_slot_that_is_no_entrys_is_dropped() {
    let (token, unknown) = (Token::of_test(1), Token::of_test(2));
    let mut entries = with(token, at(5));
    entries.timeline.insert(at(1), unknown); // of no entry
    entries.timeline.insert(at(2), token); // at another time
    assert_eq!(entries.due(at(4)), []);
    assert_eq!(entries.first_check(), Some((at(5), token)));
    assert_eq!(entries.due(at(5)), [token]);
}

#[test]
fn what_comes_after_the_next_look_is_found_by_it() {
    let (soon, late) = (Token::of_test(1), Token::of_test(2));
    let mut entries = with(soon, at(5));
    entries.looks_by(at(10));
    entries.insert(late, claim());
    entries.check_at(late, at(20));
    entries.check_at(late, at(15));
    entries.check_at(late, at(20)); // twice
    assert_eq!(entries.due(at(30)), [soon], "it did not look");
    entries.looks();
    assert_eq!(entries.due(at(30)), [soon, late]);
    entries.forget(late);
    entries.looks_by(at(10));
    entries.forget(soon);
    assert_eq!(entries.first_check(), None, "nothing stays in the timeline");
}

#[test]
fn leases_that_end_before_the_next_look_leave_little() {
    let mut entries = Entries::<u64>::default();
    entries.looks_by(at(10));
    for number in 1..=100_000 {
        let token = Token::of_test(number);
        entries.insert(token, claim());
        entries.check_at(token, at(20));
        entries.forget(token);
    }
    assert!(entries.later.len() <= SIFT_AT_LEAST && entries.timeline == Timeline::default());
}
