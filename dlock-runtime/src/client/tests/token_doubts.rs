//! Messages that say that a holder was evicted: whom they make ask the server, how often, and that
//! only its answer ends a lease.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::proptest;
use proptest::test_runner::{Config as ProptestConfig, RngSeed};

use super::token_wait::{Table, claim, holding, lease, token, waiting};
use super::{at, ms, terms};
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::tokens::Action;
use crate::client::tokens::doubts::{QUESTIONS, WITHIN};
use crate::rules::commands::{Claim, Renewed};
use crate::values::bounds::Bounds;
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

/// Whether the holder of `token_wait` has to be looked at because of a message.
fn hears(table: &mut Table) -> bool {
    table.doubted(token(), "k", false).is_some()
}

/// The tokens that are asked about at this time, and no other action.
fn asked(table: &mut Table, now: Moment) -> Vec<Token> {
    let asked = table.due(now).into_iter().map(|action| match action {
        Action::Verify { token, .. } => token,
        other => panic!("no question: {other:?}"),
    });
    asked.collect()
}

#[test]
fn only_the_servers_answer_ends_a_lease() {
    let lost = Action::Lost {
        holder: 5,
        claim: claim(),
        cause: LostCause::Gone,
    };
    for (answer, told) in [(Some(true), None), (None, None), (Some(false), Some(lost))] {
        let mut table = holding(Bounds::default());
        let before = table.next_check();
        assert!(hears(&mut table));
        assert!(!hears(&mut table), "it is in line");
        assert!(table.next_check() <= at(20) && table.next_check_at(token()) <= Some(at(20)));
        let question = Action::Verify {
            token: token(),
            claim: claim(),
            within: at(20).until(at(889)),
        };
        assert_eq!(table.due(at(20)), [question], "and nothing is renewed");
        assert_eq!((table.next_check(), table.due(at(21))), (before, vec![]));
        assert_eq!(table.verified(token(), answer, at(25)), told);
        assert_eq!(table.due(at(25)), []);
    }
}

/// Its answer may be older than what the message says.
#[test]
fn a_message_after_the_question_asks_once_more() {
    let mut table = holding(Bounds::default());
    assert!(hears(&mut table));
    assert_eq!(asked(&mut table, at(20)), [token()]);
    assert!(!hears(&mut table) && !hears(&mut table));
    assert_eq!(asked(&mut table, at(21)), []);
    assert_eq!(table.verified(token(), Some(true), at(22)), None);
    assert!(table.next_check() <= at(22));
    assert_eq!(asked(&mut table, at(22)), [token()]);
    assert_eq!(table.verified(token(), Some(true), at(23)), None);
    assert_eq!(asked(&mut table, at(23)), []);
}

/// Also one by one, as the tasks of `memory://` look.
#[test]
fn what_is_no_holder_by_now_is_not_asked_about() {
    let mut other_key = holding(Bounds::default());
    assert!(other_key.doubted(token(), "k2", true).is_none());

    let mut released = holding(Bounds::default());
    assert!(hears(&mut released));
    released.release(token(), at(10));
    assert_eq!(released.due_of(token(), at(20)), None);
    released.released(token());
    assert_eq!(
        (released.due(at(20)), released.next_check()),
        (vec![], Moment::NEVER)
    );
    assert!(!hears(&mut released), "of the past");

    let mut renewed = holding(Bounds::default());
    assert!(matches!(renewed.due(at(300))[..], [Action::Renew { .. }]));
    assert!(hears(&mut renewed), "its answer may be older");
    let question = renewed.due_of(token(), at(301));
    assert!(matches!(question, Some(Action::Verify { .. })));
    let gone = renewed.renewed(token(), at(300), Renewed::NotOurs, at(305));
    assert!(matches!(gone, Some(Action::Lost { .. })));
    assert_eq!(
        renewed.verified(token(), Some(false), at(306)),
        None,
        "it is lost once"
    );
}

/// A grant that nobody has taken yet was evicted, or the lock is handed on before the question is
/// sent, or answered: its next holder asks.
#[test]
fn the_next_holder_asks() {
    let taken = |mut table: Table, now| {
        assert_eq!(asked(&mut table, now), [], "nobody holds it");
        assert!(table.granted(token(), lease(), |_| 6).is_some());
        assert!(table.next_check() <= now && table.next_check_at(token()) <= Some(now));
        assert_eq!(asked(&mut table, now), [token()]);
        assert_eq!(asked(&mut table, now), []);
        let lost = table.verified(token(), Some(false), now);
        assert!(matches!(lost, Some(Action::Lost { holder: 6, .. })));
    };
    let mut granted = waiting();
    assert!(!hears(&mut granted), "there is no holder to look at");
    assert!(granted.doubted(token(), "k2", true).is_none());
    taken(granted, at(20));

    let mut in_line = holding(Bounds::default());
    assert!(hears(&mut in_line));
    assert!(in_line.hand_on(token(), at(10)));
    taken(in_line, at(20));

    let mut asks = holding(Bounds::default());
    assert!(hears(&mut asks));
    assert_eq!(asked(&mut asks, at(10)), [token()]);
    assert!(asks.hand_on(token(), at(11)));
    assert_eq!(asks.verified(token(), Some(false), at(12)), None);
    taken(asks, at(20));
}

/// However many renewals are due, of holders in line.
#[test]
fn a_due_check_does_not_come_before_the_first_in_line() {
    let (mut table, proved) = (Table::default(), Token::of_test(KEYS));
    (1..KEYS).for_each(|number| grant_for(&mut table, number, &terms(900, Some(300))));
    grant(&mut table, KEYS);
    for number in 1..KEYS {
        assert!(table.doubted(Token::of_test(number), "k", false).is_some());
    }
    assert!(table.doubted(proved, "k", true).is_some());
    let (mut questions, mut renewals) = (Vec::new(), 0);
    for action in table.due(at(300)) {
        match action {
            Action::Verify { token, .. } => questions.push(token),
            Action::Renew { .. } => renewals += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((questions.len(), questions[0]), (QUESTIONS, proved));
    assert_eq!(renewals, KEYS - 1, "each is renewed all the same");
    let lost = table.due(at(900));
    let is_question = |it: &Action<u64>| matches!(it, Action::Verify { .. });
    assert!(!lost.iter().any(is_question), "it is lost anyway");
}

const KEYS: u64 = 30;

/// A table with many leases that outlast every test.
fn many() -> Table {
    let mut table = Table::default();
    (1..=KEYS).for_each(|number| grant(&mut table, number));
    table
}

fn grant(table: &mut Table, number: u64) {
    grant_for(table, number, &terms(3_600_000, None));
}

fn grant_for(table: &mut Table, number: u64, terms: &LeaseTerms) {
    let claim = Claim {
        is_once: false,
        key: "k".into(),
        value: format!("v{number}").into(),
        queues: false,
    };
    table.acquiring(Token::of_test(number), claim);
    let lease = Lease::granted(at(0), terms.lease().get(), terms);
    table.granted(Token::of_test(number), lease, |_| number);
}

/// A message every so many ms about one of the keys, for as long as that takes; each question is
/// answered at once. Returns when each question was sent.
fn flood(table: &mut Table, messages: &[(u64, u64)], proved: usize) -> Vec<(Moment, Token)> {
    let (mut asked_at, mut heard) = (Vec::new(), BTreeMap::new());
    let mut now = at(0);
    let mut messages = messages.iter().enumerate();
    let mut next = messages.next();
    let most = WITHIN * (u32::try_from(KEYS).unwrap() / 10 + 1);
    loop {
        let told = next.map_or(Moment::NEVER, |(_, (after, _))| now.plus(ms(*after)));
        let due = table.next_check().max(now);
        if told.min(due) > at(3_000_000) {
            assert!(heard.is_empty(), "each has its turn");
            return asked_at;
        } else if told <= due {
            let (nth, (_, number)) = next.expect("it is told");
            (now, next) = (told, messages.next());
            let token = Token::of_test(*number);
            table.doubted(token, "k", nth == proved);
            let most = if nth == proved { WITHIN } else { most };
            heard.entry(token).or_insert(now.plus(most));
        } else {
            now = due;
        }
        for token in asked(table, now) {
            let by = heard
                .remove(&token)
                .expect("nobody is asked about without a message");
            assert!(now <= by, "it waited for its turn for too long");
            asked_at.push((now, token));
            table.verified(token, Some(true), now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, rng_seed: RngSeed::Fixed(7), failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Of any flood, whoever it is about; a holder gets its turn all the same, and at once if a message
    /// about it is proved.
    #[test]
    fn ten_questions_a_second_at_most(
        messages in vec((0..40_u64, 1..=KEYS), 1..300), proved in 0..300_usize,
    ) {
        let asked = flood(&mut many(), &messages, proved);
        for span in asked.windows(QUESTIONS + 1) {
            assert!(span[0].0.until(span[QUESTIONS].0) >= WITHIN, "too many");
        }
    }
}

/// Each of many locks that is released soon, before its turn.
#[test]
fn a_line_of_the_past_does_not_grow() {
    let mut table = many();
    for number in 1..=KEYS {
        assert!(table.doubted(Token::of_test(number), "k", false).is_some());
    }
    assert_eq!(asked(&mut table, at(1)).len(), QUESTIONS);
    for number in KEYS + 1..10_000 {
        grant(&mut table, number);
        assert!(table.doubted(Token::of_test(number), "k", false).is_some());
        table.release(Token::of_test(number), at(2));
        table.released(Token::of_test(number));
        assert!(table.in_doubt() <= 2 * table.all().len() + 3);
    }
    assert_eq!(
        asked(&mut table, at(1001)).len(),
        QUESTIONS,
        "those before them are not lost"
    );
}
