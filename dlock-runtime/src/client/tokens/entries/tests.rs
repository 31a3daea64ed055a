//! The entries and their timeline stay in step, even for tokens and slots that should not exist.
use super::{Entries, TokenStage};
use crate::policy::commands::Claim;
use crate::values::moment::Moment;
use crate::values::token::Token;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

fn claim() -> Claim {
    Claim {
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
