//! The token table, one path at a time.

use super::{at, ms, terms, ttl};
use crate::client::lease::Lease;
use crate::client::tokens::{Action, Census, Extension, ReleaseBy, Tokens};
use crate::rules::commands::{Cancelled, Claim, GivenBack, Keep, Renewed};
use crate::values::error::LostCause;
use crate::values::moment::Moment;
use crate::values::token::Token;

type Table = Tokens<u64>;

fn token(number: u64) -> Token {
    Token::of_test(number)
}

fn claim(number: u64) -> Claim {
    Claim {
        is_once: false,
        key: format!("k{number}").into(),
        value: format!("v{number}").into(),
        queues: false,
    }
}

/// A table with one lease of 900 ms from 0 on, renewed every 300 ms.
fn holding() -> Table {
    let mut table = Table::default();
    grant(&mut table, 1, at(0), Some(300));
    table
}

fn grant(table: &mut Table, number: u64, sent: Moment, renew: Option<u64>) {
    table.acquiring(token(number), claim(number));
    let lease = Lease::granted(sent, ms(900), &terms(900, renew));
    assert!(table.granted(token(number), lease, |_| number).is_some());
}

fn renewed(table: &Table, actions: &[Action<u64>]) -> Vec<Token> {
    let renewed = actions.iter().map(|action| match action {
        Action::Renew { token, .. } => *token,
        other => panic!("not a renewal: {other:?}"),
    });
    let mut renewed: Vec<Token> = renewed.collect();
    renewed.sort();
    assert!(renewed.iter().all(|token| table.all().contains(token)));
    renewed
}

fn is_cancel(actions: &[Action<u64>]) -> bool {
    matches!(actions, [Action::Cancel { .. }])
}

fn cancelled(conclusive: bool, time: u64) -> Cancelled {
    Cancelled {
        is_recorded: false,
        time,
        found: false,
        conclusive,
        rest: 0,
    }
}

fn lost(cause: LostCause) -> Action<u64> {
    Action::Lost {
        holder: 1,
        claim: claim(1),
        cause,
    }
}

fn assert_empty(table: &Table) {
    assert_eq!(
        (table.census(), table.next_check(), table.all()),
        (Census::default(), Moment::NEVER, vec![])
    );
}

#[test]
fn an_acquire_that_created_nothing_is_forgotten() {
    let mut table = Table::default();
    table.acquiring(token(1), claim(1));
    assert_eq!(
        table.census(),
        Census {
            acquiring: 1,
            ..Census::default()
        }
    );
    table.not_granted(token(1));
    assert_empty(&table);
}

#[test]
fn a_lease_ends_at_its_deadline_and_is_cleaned_up() {
    let mut table = holding();
    let end = at(900 - 9 - 2);
    table.due(at(300)); // a renewal that is never answered
    assert_eq!(table.next_check(), end);
    assert_eq!(table.due(end), [lost(LostCause::Deadline)]);
    assert_eq!(
        table.census(),
        Census {
            cleaning_up: 1,
            ..Census::default()
        }
    );
    assert_eq!(table.release(token(1), end), ReleaseBy::Nobody);
}

#[test]
fn a_renewal_lengthens_and_tells_the_holder() {
    let mut table = holding();
    let actions = table.due(at(300));
    assert_eq!(renewed(&table, &actions), [token(1)]);
    let told = table.renewed(token(1), at(300), Renewed::Yes, at(320));
    assert_eq!(
        told,
        Some(Action::Extended {
            token: token(1),
            holder: 1,
            deadline: at(300 + 900 - 9 - 2),
            cause: LostCause::Deadline
        })
    );
    assert_eq!(table.next_check(), at(600));
}

#[test]
fn a_failed_renewal_is_repeated_and_loses_nothing() {
    let mut table = holding();
    table.due(at(300));
    assert_eq!(
        table.renewed(token(1), at(300), Renewed::Failed, at(320)),
        None
    );
    assert_eq!(table.next_check(), at(410));
    assert_eq!(table.census().held, 1);
}

#[test]
fn a_release_during_a_renewal_goes_behind_it() {
    let mut table = holding();
    table.due(at(300));
    assert_eq!(table.release(token(1), at(310)), ReleaseBy::Host);
    assert!(
        table.due(at(320)).is_empty(),
        "the renewal is still under way"
    );
    assert_eq!(
        table.renewed(token(1), at(300), Renewed::Yes, at(330)),
        None
    );
    assert!(is_cancel(&table.due(at(330))));
}

#[test]
fn a_release_is_the_callers_when_nothing_is_under_way() {
    let mut table = holding();
    assert_eq!(
        table.release(token(1), at(10)),
        ReleaseBy::Caller { keep: Keep::NOT }
    );
    assert_eq!(table.next_check(), Moment::NEVER, "not renewed any more");
    assert_eq!(table.release(token(1), at(10)), ReleaseBy::Nobody);
    table.released(token(1));
    assert_empty(&table);
}

#[test]
fn an_unclear_release_is_cleaned_up() {
    let mut table = holding();
    table.release(token(1), at(10));
    table.leave_to_clean_up(token(1), at(20));
    assert!(is_cancel(&table.due(at(20))));
    let done = table.cancelled(token(1), cancelled(true, 0), false, at(30));
    assert_eq!(
        done,
        Some(Action::CleanedUp {
            is_unrecorded: false,
            holder: Some(1),
            claim: claim(1),
            found: Some(GivenBack::default())
        })
    );
    assert_empty(&table);
}

#[test]
fn what_the_server_denies_is_lost_and_needs_no_clean_up() {
    let mut table = holding();
    table.due(at(300));
    let told = table.renewed(token(1), at(300), Renewed::NotOurs, at(310));
    assert_eq!(told, Some(lost(LostCause::Gone)));
    assert_empty(&table);
}

/// After the deadline the lock is expected to be gone: the server's answer is no second cause.
#[test]
fn what_the_server_denies_after_the_deadline_was_over_by_then() {
    for (at_end, cause) in [(899, LostCause::Gone), (900, LostCause::Deadline)] {
        let at_end = at(at_end - 11); // the margin
        let mut table = holding();
        assert_eq!(table.refused(token(1), at_end), Some(lost(cause)));
        assert_empty(&table);
        let mut table = holding();
        table.due(at(300));
        let told = table.renewed(token(1), at(300), Renewed::NotOurs, at_end);
        assert_eq!(told, Some(lost(cause)));
        assert_empty(&table);
    }
}

/// The last renewal that was answered says why; the holder hears of it before the deadline.
#[test]
fn too_few_nodes_are_the_cause_until_a_renewal_says_otherwise() {
    for (then, cause) in [
        (None, LostCause::TooFewNodes),
        (Some(Renewed::TooFew), LostCause::TooFewNodes),
        (Some(Renewed::Failed), LostCause::Deadline),
        (Some(Renewed::Yes), LostCause::Deadline),
    ] {
        let mut table = holding();
        table.due(at(300));
        let told = table.renewed(token(1), at(300), Renewed::TooFew, at(310));
        let is_told = matches!(
            told,
            Some(Action::Extended {
                cause: LostCause::TooFewNodes,
                ..
            })
        );
        assert!(is_told, "{told:?}");
        if let Some(outcome) = then {
            table.due(at(400));
            table.renewed(token(1), at(400), outcome, at(410));
        }
        let end = table.due(at(5000)).into_iter();
        let lost: Vec<_> = end.filter(|it| matches!(it, Action::Lost { .. })).collect();
        assert_eq!(lost, [self::lost(cause)], "{then:?}");
    }
}

#[test]
fn an_answer_after_the_deadline_saves_nothing() {
    let mut table = holding();
    table.due(at(300));
    let told = table.renewed(token(1), at(300), Renewed::Yes, at(895));
    assert_eq!(told, Some(lost(LostCause::Deadline)));
    assert_eq!(
        table.extended(token(1), (at(894), ttl(900)), Renewed::Yes, at(896)),
        Extension::Over
    );
}

#[test]
fn an_extension_counts_before_the_deadline_only() {
    let mut table = holding();
    assert_eq!(
        table.extended(token(1), (at(10), ttl(2000)), Renewed::Yes, at(20)),
        Extension::Until(at(10 + 2000 - 20 - 2), LostCause::Deadline)
    );
    assert_eq!(
        table.extended(token(1), (at(10), ttl(100)), Renewed::Yes, at(20)),
        Extension::Until(at(1988), LostCause::Deadline),
        "never shorter"
    );
    let mut late = holding();
    assert_eq!(
        late.extended(token(1), (at(888), ttl(2000)), Renewed::Yes, at(889)),
        Extension::Over
    );
}

#[test]
fn an_abandoned_acquire_waits_for_the_cancel_behind_it() {
    let mut table = Table::default();
    table.acquiring(token(1), claim(1));
    table.abandoned(token(1), 5_000, at(3000), Some(at(600)), at(100));
    assert!(table.due(at(200)).is_empty());
    let lease = Lease::granted(at(0), ms(900), &terms(900, None));
    let revived = table.granted(token(1), lease, |_| 1);
    assert_eq!(revived, None, "by a late answer");
    assert!(
        table
            .cancelled(token(1), cancelled(false, 1_000), true, at(200))
            .is_some()
    );
    assert_empty(&table);
}

#[test]
fn a_cancel_that_nobody_reports_is_sent_by_the_host_too() {
    let mut table = Table::default();
    table.acquiring(token(1), claim(1));
    table.abandoned(token(1), 5_000, at(3000), Some(at(600)), at(100));
    assert_eq!(table.next_check(), at(600));
    assert!(table.due(at(599)).is_empty());
    assert!(is_cancel(&table.due(at(600))));
    let late = table.cancelled(token(1), cancelled(true, 1_000), true, at(700));
    assert!(late.is_some(), "the first one's report still counts");
    let second = table.cancelled(token(1), cancelled(false, 1_000), false, at(701));
    assert_eq!(second, None);
    assert_empty(&table);
}

#[test]
fn an_inconclusive_cancel_is_repeated_when_the_acquire_is_late() {
    let mut table = Table::default();
    table.acquiring(token(1), claim(1));
    table.abandoned(token(1), 5_000, at(3000), None, at(100));
    assert!(is_cancel(&table.due(at(100))));
    assert!(table.due(at(100)).is_empty(), "one at a time");
    assert_eq!(
        table.cancelled(token(1), cancelled(false, 1_000), false, at(110)),
        None
    );
    assert_eq!(
        table.next_check(),
        at(110 + 4 + 1),
        "4 ms to its not_after, and one more"
    );
    assert!(is_cancel(&table.due(at(115))));
}

#[test]
fn a_clean_up_ends_when_nothing_can_be_left() {
    let mut table = Table::default();
    table.acquiring(token(1), claim(1));
    table.abandoned(token(1), u64::MAX, at(3000), None, at(100));
    let mut now = at(100);
    let mut cancels = 0;
    while table.due(now)
        != [Action::CleanedUp {
            is_unrecorded: false,
            holder: None,
            claim: claim(1),
            found: None,
        }]
    {
        cancels += 1;
        table.cancel_failed(token(1), now);
        now = table.next_check();
        assert!(now <= at(4000), "given up in time");
    }
    assert!(cancels > 3, "tried {cancels} times");
    assert!(now >= at(3000));
    assert_empty(&table);
}

#[test]
fn one_renewal_takes_those_along_that_are_nearly_due() {
    let mut table = Table::default();
    // Due at 300, 374, 375 and 376; a quarter of the interval is 75.
    for (number, sent) in [(1, 0), (2, 74), (3, 75), (4, 76)] {
        grant(&mut table, number, at(sent), Some(300));
    }
    grant(&mut table, 5, at(0), None);
    let actions = table.due(at(300));
    assert_eq!(renewed(&table, &actions), [token(1), token(2), token(3)]);
    assert_eq!(table.next_check(), at(376));
}

#[test]
fn a_watchdog_that_ends_loses_every_lease_once() {
    let mut table = holding();
    let told = table.unguarded(token(1), at(10));
    assert_eq!(told, Some(lost(LostCause::Watchdog)));
    assert_eq!(table.unguarded(token(1), at(10)), None);
}

#[test]
fn one_token_can_be_looked_at_alone() {
    let mut table = holding();
    grant(&mut table, 2, at(0), Some(300));
    assert_eq!(table.due_of(token(1), at(299)), None);
    assert!(matches!(
        table.due_of(token(1), at(300)),
        Some(Action::Renew { .. })
    ));
    assert_eq!(
        table.next_check_at(token(2)),
        Some(at(300)),
        "the other is left alone"
    );
    assert_eq!(table.next_check_at(token(9)), None);
}

/// Some of its nodes have not said yet that nothing is left there.
#[test]
fn a_quorum_confirms_a_release_before_all_of_its_nodes_do() {
    let mut table = Table::of_quorum();
    grant(&mut table, 1, at(0), Some(300));
    assert_eq!(renewed(&table, &table.clone().due(at(300))), [token(1)]);
    table.due(at(300));
    assert_eq!(table.release(token(1), at(310)), ReleaseBy::Host);
    table.renewed(token(1), at(300), Renewed::Yes, at(320));
    assert!(is_cancel(&table.due(at(320))));
    let by_most = Cancelled {
        found: true,
        ..cancelled(false, 1)
    };
    let told = table.cancelled(token(1), by_most, true, at(330));
    let Some(Action::CleanedUp {
        holder: Some(1),
        found: Some(found),
        ..
    }) = told
    else {
        panic!("{told:?}");
    };
    assert!(found.found && found.is_open);
    assert!(table.is_cleaning_up(token(1)), "the others are asked again");
    assert!(is_cancel(&table.due(at(2000))));
    let over = table.cancelled(token(1), cancelled(true, 2), false, at(2010));
    assert!(
        matches!(over, Some(Action::CleanedUp { holder: None, .. })),
        "{over:?}"
    );
    assert!(table.all().is_empty());
}

/// Others may still have it.
#[test]
fn a_lock_that_a_quorum_refuses_is_cleaned_up() {
    let mut table = Table::of_quorum();
    grant(&mut table, 1, at(0), Some(300));
    let lost = table.refused(token(1), at(100));
    assert!(matches!(lost, Some(Action::Lost { .. })), "{lost:?}");
    assert!(is_cancel(&table.due(at(100))));
}
