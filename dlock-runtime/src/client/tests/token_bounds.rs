//! The token table and the bounds of a hold: a key that is kept, and what ends a lease.

use super::token_wait::{
    Table, cancel, claim, holding, in_every_state, lease, state, token, waiting,
};
use super::{at, ms, terms, ttl};
use crate::client::lease::Lease;
use crate::client::tokens::{Action, Extension, ReleaseBy};
use crate::rules::commands::{Keep, Renewal, Renewed};
use crate::values::bounds::Bounds;
use crate::values::error::LostCause;
use crate::values::ttl::Margin;

fn for_a_while() -> Keep {
    Keep::from(0, ms(77_000))
}

fn lost(cause: LostCause) -> Action<u64> {
    Action::Lost {
        holder: 5,
        claim: claim(),
        cause,
    }
}

#[test]
fn a_key_is_kept_by_its_holder_only() {
    for (state, mut table) in in_every_state() {
        assert_eq!(table.keep(token(), for_a_while()), state == 'h', "{state}");
        if state == 'h' {
            let by = ReleaseBy::Caller {
                keep: for_a_while(),
            };
            assert_eq!(table.release(token(), at(10)), by);
            assert!(!table.keep(token(), Keep::NOT), "it is over");
        }
        table.leave_to_clean_up(token(), at(20));
        let kept = table
            .due(at(20))
            .into_iter()
            .find_map(|action| match action {
                Action::Cancel { keep, .. } => Some(keep),
                _ => None,
            });
        let expected = [('h', for_a_while()), ('r', Keep::NOT), ('c', Keep::NOT)];
        let expected = expected.iter().find(|it| it.0 == state);
        assert_eq!(kept, expected.map(|it| it.1), "{state}");
    }
}

/// Whatever ends the hold, and however often the cancel has to be sent.
#[test]
fn a_key_that_is_kept_stays_so_in_every_clean_up() {
    type End = fn(&mut Table);
    let ends: [(&str, End); 6] = [
        ("dropped", |table| table.leave_to_clean_up(token(), at(20))),
        ("released behind a renewal", |table| {
            table.due(at(300));
            assert_eq!(table.release(token(), at(310)), ReleaseBy::Host);
            table.renewed(token(), at(300), Renewed::Yes, at(320));
        }),
        ("released, and no clear answer", |table| {
            table.release(token(), at(10));
            table.leave_to_clean_up(token(), at(20));
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
        assert!(table.keep(token(), for_a_while()), "{name}");
        end(&mut table);
        let mut now = at(889);
        for _ in 0..3 {
            let again = table.due_of(token(), now);
            assert_eq!(again, Some(cancel(for_a_while())), "{name}");
            table.cancel_failed(token(), now);
            now = table.next_check();
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
            once_per: None,
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
    assert_eq!((state(&table), table.next_check()), ('h', at(500)));
    assert_eq!(table.due(at(500))[0], lost(LostCause::MaxHold));
    assert_eq!(state(&table), 'c');
}

#[test]
fn a_holder_extends_up_to_max_hold() {
    let mut table = holding(Bounds {
        max_hold: Some(ms(5000)),
        ..Bounds::default()
    });
    let told = table.extended(token(), (at(10), ttl(9000)), Renewed::Yes, at(20));
    assert_eq!(told, Extension::Until(at(5000), LostCause::MaxHold));
    let late = table.extended(token(), (at(4990), ttl(9000)), Renewed::Yes, at(5000));
    assert_eq!(late, Extension::Over);
}

#[test]
fn a_short_grant_is_renewed_for_the_whole_ttl() {
    let mut table = waiting();
    let short = Lease::granted(at(0), ms(300), &terms(900, None));
    assert!(table.granted(token(), short, |_| 5).is_some());
    let renewal = Renewal {
        claim: claim(),
        ttl: ttl(900),
    };
    let renew = Action::Renew {
        token: token(),
        renewal,
        within: at(100).until(at(0).plus(Margin::DEFAULT.validity(ms(300)))) / 2, // of the short grant
    };
    assert_eq!(table.due(at(100)), [renew]);
    table.renewed(token(), at(100), Renewed::Yes, at(110));
    assert_eq!(table.next_check(), at(100 + 889));
}

/// A clean-up after `min_hold` is not given up while the key may still be there; a renewal may have
/// been executed 6 s late.
#[test]
fn a_clean_up_goes_on_for_as_long_as_the_key_may_stay() {
    for (min_hold, until) in [(None, 900), (Some(ms(30_000)), 30_000)] {
        let mut table = holding(Bounds {
            min_hold,
            ..Bounds::default()
        });
        table.leave_to_clean_up(token(), at(50));
        table.due(at(50));
        assert_eq!(table.next_check(), at(50 + until + 6000));
    }
    let mut table = holding(Bounds::default());
    assert!(table.extending(token(), ttl(20_000)), "answered or not");
    table.leave_to_clean_up(token(), at(50));
    table.due(at(50));
    assert_eq!(table.next_check(), at(50 + 20_000 + 6000));
}
