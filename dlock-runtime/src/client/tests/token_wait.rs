//! The token table and the queue: waiting for a turn, giving up, strays.

use super::{at, ms, terms};
use crate::client::lease::{Lease, LeaseTerms};
use crate::client::tokens::{Action, Census, Tokens};
use crate::rules::commands::{Cancelled, Claim, GivenBack, Keep};
use crate::values::bounds::Bounds;
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) type Table = Tokens<u64>;

pub(super) fn token() -> Token {
    Token::of_test(1)
}

pub(super) fn claim() -> Claim {
    Claim {
        is_once: false,
        key: "k".into(),
        value: "v".into(),
        queues: true,
    }
}

fn acquiring() -> Table {
    let mut table = Table::default();
    table.acquiring(token(), claim());
    table
}

pub(super) fn waiting() -> Table {
    let mut table = acquiring();
    table.queued(token());
    table
}

/// From 0 on, renewed every 300 ms.
pub(super) fn holding(bounds: Bounds) -> Table {
    let (mut table, renewed) = (acquiring(), terms(900, Some(300)));
    let terms = LeaseTerms { bounds, ..renewed };
    let lease = Lease::granted(at(0), terms.lease().get(), &terms);
    assert!(table.granted(token(), lease, |_| 5).is_some());
    table
}

pub(super) fn lease() -> Lease {
    Lease::granted(at(0), ms(900), &terms(900, None))
}

fn releasing() -> Table {
    let mut table = holding(Bounds::default());
    table.release(token(), at(10));
    table
}

fn cleaning_up() -> Table {
    let mut table = waiting();
    table.give_up(token(), at(3000), at(10));
    table
}

/// A cancel of a token whose acquire was answered.
pub(super) fn cancel(keep: Keep) -> Action<u64> {
    Action::Cancel {
        token: token(),
        claim: claim(),
        keep,
        not_after: 0,
    }
}

/// The state of the table's only token, as one letter.
pub(super) fn state(table: &Table) -> char {
    let census = table.census();
    let all = [
        ('a', census.acquiring),
        ('w', census.waiting),
        ('h', census.held),
        ('r', census.releasing),
        ('c', census.cleaning_up),
    ];
    let there: Vec<char> = all.iter().filter(|it| it.1 == 1).map(|it| it.0).collect();
    match there[..] {
        [] => '-',
        [one] => one,
        _ => panic!("{census:?}"),
    }
}

pub(super) fn in_every_state() -> [(char, Table); 6] {
    [
        ('-', Table::default()),
        ('a', acquiring()),
        ('w', waiting()),
        ('h', holding(Bounds::default())),
        ('r', releasing()),
        ('c', cleaning_up()),
    ]
}

#[test]
fn what_is_queued_waits_for_its_turn_and_needs_nothing() {
    let mut table = waiting();
    assert_eq!((state(&table), table.next_check()), ('w', Moment::NEVER));
    assert_eq!(table.due_of(token(), at(100_000)), None);
    assert!(table.granted(token(), lease(), |_| 5).is_some(), "in turn");
    assert_eq!((state(&table), table.next_check()), ('h', lease().next()));
    assert!(table.granted(token(), lease(), |_| 5).is_none(), "once");

    let mut table = waiting();
    table.not_granted(token());
    assert_eq!((state(&table), table.all()), ('-', vec![]), "gone");
    assert!(table.granted(token(), lease(), |_| 5).is_none());
}

#[test]
fn what_nobody_wants_is_cleaned_up_and_never_held() {
    for mut table in [acquiring(), waiting()] {
        table.give_up(token(), at(3000), at(10));
        assert_eq!((state(&table), table.next_check()), ('c', at(10)));
        assert_eq!(table.due(at(10)), [cancel(Keep::NOT)]);
        assert!(
            table.granted(token(), lease(), |_| 5).is_none(),
            "no push revives it"
        );
        let answer = Cancelled {
            is_recorded: false,
            time: 0,
            found: true,
            conclusive: true,
            rest: 0,
        };
        let done = Action::CleanedUp {
            is_unrecorded: false,
            holder: None,
            claim: claim(),
            found: Some(GivenBack {
                is_recorded: false,
                found: true,
                rest: 0,
                is_open: false,
            }),
        };
        let told = table.cancelled(token(), answer, false, at(20));
        assert_eq!((told, state(&table)), (Some(done), '-'));
    }
}

#[test]
fn a_giving_up_ends_when_nothing_can_be_left() {
    let mut table = cleaning_up();
    assert_eq!(table.due(at(10)), [cancel(Keep::NOT)]); // and it is never answered
    assert_eq!(table.next_check(), at(3000));
    let done = Action::CleanedUp {
        is_unrecorded: false,
        holder: None,
        claim: claim(),
        found: None,
    };
    assert_eq!(table.due(at(3000)), [done]);
    assert_eq!((state(&table), table.next_check()), ('-', Moment::NEVER));
}

#[test]
fn a_grant_that_nobody_knows_of_is_cleaned_up() {
    for (before, mut table) in in_every_state() {
        table.stray(token(), claim(), at(3000), at(20));
        if before == '-' {
            assert_eq!((state(&table), table.next_check()), ('c', at(20)));
            assert_eq!(table.due(at(20)), [cancel(Keep::NOT)]);
            assert_eq!(table.next_check(), at(3000));
        } else {
            assert_eq!(state(&table), before, "it is known");
        }
    }
}

/// A forged grant named a number that was drawn only later.
#[test]
fn a_token_that_was_taken_for_a_stray_may_still_enter() {
    let mut table = Table::default();
    table.stray(token(), claim(), at(3000), at(20));
    table.acquiring(token(), claim());
    assert_eq!(table.next_check(), Moment::NEVER, "nothing is due of it");
    assert_eq!(table.due(at(4000)), []);
    table.not_granted(token());
    assert_eq!(table, Table::default(), "and nothing stays");
}

#[test]
fn a_census_counts_each_token_where_it_stands() {
    let mut table = Table::default();
    for (number, claims) in (1..=3).zip([claim(), claim(), claim()]) {
        table.acquiring(Token::of_test(number), claims);
    }
    table.queued(Token::of_test(2));
    table.queued(Token::of_test(3));
    let census = Census {
        acquiring: 1,
        waiting: 2,
        ..Census::default()
    };
    assert_eq!(table.census(), census);
}
