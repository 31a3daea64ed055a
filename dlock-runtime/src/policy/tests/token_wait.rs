//! The table of tokens where it meets the queue and the bounds: waiting, giving up, strays, and a key that is kept.

use super::{at, ms, terms, ttl};
use crate::policy::commands::{Cancelled, Claim, Renewal, Renewed};
use crate::policy::lease::{Lease, Terms};
use crate::policy::tokens::{Action, Census, ReleaseBy, Tokens};
use crate::values::bounds::Bounds;
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

type Table = Tokens<u64>;

const KEEP: u64 = 77_000_000;

fn token() -> Token {
    Token::of_test(1)
}

fn claim() -> Claim {
    Claim {
        key: "k".into(),
        value: "v".into(),
        entry: "x|ch|900|v".into(),
    }
}

fn acquiring() -> Table {
    let mut table = Table::default();
    table.acquiring(token(), claim());
    table
}

fn waiting() -> Table {
    let mut table = acquiring();
    table.queued(token());
    table
}

/// From 0 on, renewed every 300 ms.
fn holding(bounds: Bounds) -> Table {
    let (mut table, renewed) = (acquiring(), terms(900, Some(300)));
    let terms = Terms { bounds, ..renewed };
    let lease = Lease::granted(at(0), terms.lease().get(), &terms);
    assert!(table.granted(token(), lease, 5));
    table
}

fn lease() -> Lease {
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
fn cancel(keep_until: u64) -> Action<u64> {
    Action::Cancel {
        token: token(),
        claim: claim(),
        keep_until,
        not_after: 0,
    }
}

fn lost(cause: LostCause) -> Action<u64> {
    Action::Lost {
        holder: 5,
        claim: claim(),
        cause,
    }
}

/// The table in words: one letter for its one token.
fn state(table: &Table) -> char {
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

fn in_every_state() -> [(char, Table); 6] {
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
    assert_eq!((state(&table), table.next_look()), ('w', Moment::NEVER));
    assert_eq!(table.due_of(token(), at(100_000)), None);
    assert!(table.granted(token(), lease(), 5), "in turn");
    assert_eq!((state(&table), table.next_look()), ('h', lease().next()));
    assert!(!table.granted(token(), lease(), 5), "once");

    let mut table = waiting();
    table.not_granted(token());
    assert_eq!((state(&table), table.all()), ('-', vec![]), "gone");
    assert!(!table.granted(token(), lease(), 5));
}

#[test]
fn only_what_is_being_asked_for_can_be_queued() {
    for (before, mut table) in in_every_state() {
        let look = table.next_look();
        table.queued(token());
        let after = if before == 'a' { 'w' } else { before };
        assert_eq!((state(&table), table.next_look()), (after, look));
    }
}

#[test]
fn what_nobody_wants_is_cleaned_up_and_never_held() {
    for mut table in [acquiring(), waiting()] {
        table.give_up(token(), at(3000), at(10));
        assert_eq!((state(&table), table.next_look()), ('c', at(10)));
        assert_eq!(table.due(at(10)), [cancel(0)]);
        assert!(!table.granted(token(), lease(), 5), "no push revives it");
        let answer = Cancelled {
            time: 0,
            found: true,
            conclusive: true,
        };
        let done = Action::CleanedUp {
            holder: None,
            claim: claim(),
            found: Some(true),
        };
        let told = table.cancelled(token(), answer, false, at(20));
        assert_eq!((told, state(&table)), (Some(done), '-'));
    }
}

#[test]
fn a_giving_up_ends_when_nothing_can_be_left() {
    let mut table = cleaning_up();
    assert_eq!(table.due(at(10)), [cancel(0)]); // and nothing is heard of it
    assert_eq!(table.next_look(), at(3000));
    let done = Action::CleanedUp {
        holder: None,
        claim: claim(),
        found: None,
    };
    assert_eq!(table.due(at(3000)), [done]);
    assert_eq!((state(&table), table.next_look()), ('-', Moment::NEVER));
}

#[test]
fn only_what_nobody_holds_is_given_up() {
    for (before, mut table) in in_every_state() {
        table.give_up(token(), at(9999), at(20));
        let after = if "aw".contains(before) { 'c' } else { before };
        assert_eq!(state(&table), after);
        if before == 'c' {
            table.due(at(20)); // the first one's end counts
            assert_eq!(table.next_look(), at(3000));
        }
    }
}

#[test]
fn a_grant_that_nobody_knows_of_is_cleaned_up() {
    for (before, mut table) in in_every_state() {
        table.stray(token(), claim(), at(3000), at(20));
        if before == '-' {
            assert_eq!((state(&table), table.next_look()), ('c', at(20)));
            assert_eq!(table.due(at(20)), [cancel(0)]);
            assert_eq!(table.next_look(), at(3000));
        } else {
            assert_eq!(state(&table), before, "it is known");
        }
    }
}

#[test]
fn a_key_is_kept_by_its_holder_only() {
    for (state, mut table) in in_every_state() {
        assert_eq!(table.keep(token(), KEEP), state == 'h', "{state}");
        if state == 'h' {
            let by = ReleaseBy::Caller { keep_until: KEEP };
            assert_eq!(table.release(token(), at(10)), by);
            assert!(!table.keep(token(), 1), "it is over");
        }
        table.hand_over(token(), at(20));
        let kept = table
            .due(at(20))
            .into_iter()
            .find_map(|action| match action {
                Action::Cancel { keep_until, .. } => Some(keep_until),
                _ => None,
            });
        let expected = [('h', KEEP), ('r', 0), ('c', 0)];
        let expected = expected.iter().find(|it| it.0 == state);
        assert_eq!(kept, expected.map(|it| it.1), "{state}");
    }
}

/// Whatever ends the hold, and however often the cancel has to be sent.
#[test]
fn a_key_that_is_kept_stays_so_in_every_clean_up() {
    let ends: [(&str, fn(&mut Table)); 6] = [
        ("dropped", |table| table.hand_over(token(), at(20))),
        ("released behind a renewal", |table| {
            table.due(at(300));
            assert_eq!(table.release(token(), at(310)), ReleaseBy::Host);
            table.renewed(token(), at(300), Renewed::Yes, at(320));
        }),
        ("released, and no clear answer", |table| {
            table.release(token(), at(10));
            table.hand_over(token(), at(20));
        }),
        ("ran out", |table| {
            let end = lease().deadline();
            assert_eq!(table.due_of(token(), end), Some(lost(LostCause::Deadline)));
        }),
        ("ran out during a renewal", |table| {
            table.due(at(300));
            let late = lease().deadline();
            table.renewed(token(), at(300), Renewed::Yes, late);
        }),
        ("unguarded", |table| drop(table.unguarded(token(), at(20)))),
    ];
    for (name, end) in ends {
        let mut table = holding(Bounds::default());
        assert!(table.keep(token(), KEEP), "{name}");
        end(&mut table);
        let mut now = at(889);
        for _ in 0..3 {
            let again = table.due_of(token(), now);
            assert_eq!(again, Some(cancel(KEEP)), "{name}");
            table.cancel_failed(token(), now);
            now = table.next_look();
        }
    }
}

#[test]
fn an_extension_tells_what_ends_the_lease_now() {
    let bounds = [
        (None, None, 300 + 889, LostCause::Deadline),
        (Some(ms(1000)), None, 1000, LostCause::MaxHold),
        (None, Some(1), 300 + 889, LostCause::MaxRenewals),
        (None, Some(2), 300 + 889, LostCause::Deadline),
    ];
    for (max_hold, max_renewals, end, cause) in bounds {
        let mut table = holding(Bounds {
            max_hold,
            max_renewals,
            min_hold: None,
        });
        table.due(at(300));
        let told = table.renewed(token(), at(300), Renewed::Yes, at(320));
        let extended = Action::Extended {
            token: token(),
            holder: 5,
            deadline: at(end),
            cause,
        };
        assert_eq!(told, Some(extended));
        assert_eq!(
            table.due_of(token(), at(600)).is_some(),
            cause != LostCause::MaxRenewals
        );
        let late = table.renewed(token(), at(600), Renewed::Yes, at(end));
        assert_eq!(late, Some(lost(cause)));
    }
}

#[test]
fn a_bound_that_is_met_loses_the_lease_then() {
    let mut table = holding(Bounds {
        max_hold: Some(ms(500)),
        ..Bounds::default()
    });
    table.due(at(300));
    let told = table.renewed(token(), at(300), Renewed::Yes, at(320));
    assert_eq!(told, None, "it does not last any longer");
    table.due(at(499));
    assert_eq!((state(&table), table.next_look()), ('h', at(500)));
    assert_eq!(table.due(at(500))[0], lost(LostCause::MaxHold));
    assert_eq!(state(&table), 'c');
}

#[test]
fn a_holder_extends_up_to_max_hold() {
    let mut table = holding(Bounds {
        max_hold: Some(ms(5000)),
        ..Bounds::default()
    });
    let told = table.extended(token(), at(10), ttl(9000), at(20));
    assert_eq!(told, Some((at(5000), LostCause::MaxHold)));
    let late = table.extended(token(), at(4990), ttl(9000), at(5000));
    assert_eq!(late, None);
}

#[test]
fn a_short_grant_is_renewed_for_the_whole_ttl() {
    let mut table = waiting();
    let short = Lease::granted(at(0), ms(300), &terms(900, None));
    assert!(table.granted(token(), short, 5));
    let renewal = Renewal {
        claim: claim(),
        ttl: ttl(900),
    };
    assert_eq!(table.due(at(100)), [Action::Renew(token(), renewal)]);
    table.renewed(token(), at(100), Renewed::Yes, at(110));
    assert_eq!(table.next_look(), at(100 + 889));
}

/// A clean-up after `min_hold` is not given up while the key may still be there.
#[test]
fn a_clean_up_goes_on_for_as_long_as_the_key_may_stay() {
    for (min_hold, until) in [(None, 900), (Some(ms(30_000)), 30_000)] {
        let mut table = holding(Bounds {
            min_hold,
            ..Bounds::default()
        });
        table.hand_over(token(), at(50));
        table.due(at(50));
        assert_eq!(table.next_look(), at(50 + until + 1000));
    }
    let mut table = holding(Bounds::default());
    assert!(table.extending(token(), ttl(20_000)), "answered or not");
    table.hand_over(token(), at(50));
    table.due(at(50));
    assert_eq!(table.next_look(), at(50 + 20_000 + 1000));
}

#[test]
fn only_a_holder_may_ask_for_more() {
    for (state, mut table) in in_every_state() {
        assert_eq!(table.extending(token(), ttl(900)), state == 'h', "{state}");
        let told = table.extended(token(), at(20), ttl(900), at(20));
        assert_eq!(told.is_some(), state == 'h', "{state}");
    }
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
