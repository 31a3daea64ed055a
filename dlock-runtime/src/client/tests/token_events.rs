//! Each event in each state of a token, also one that comes late: what it changes, and whether
//! somebody is told.

use super::token_wait::{Table, claim, in_every_state, lease, state, token};
use super::{at, ttl};
use crate::client::tokens::{Extension, ReleaseBy};
use crate::rules::commands::{Cancelled, Keep, Renewed};
use crate::values::moment::Moment;

/// The states of `token_wait::in_every_state`, and `.` where its caller has no such event; what
/// changes without another state; who is told something. The lock is held from 0 on, for 889 ms,
/// and renewed at 300; what is cleaned up is given up at 3000.
const EXPECTED: &str = "
    state before        -awhrc  changes  told
    queued              -wwhrc  .        .
    granted             -hhhrc  .        aw
    not granted         ---...  .        .
    abandoned           -c....  .        .
    given up            -cchrc  .        .
    stray               cawhrc  .        .
    kept                -awhrc  h        h
    extends             -awhrc  h        h
    extended            -awhrc  h        h
    extended late       -awhrc  .        .
    handed on           -awwrc  .        h
    release             -awrrc  .        h
    released            -...-.  .        .
    left to clean up    -awccc  .        .
    refused             -aw-rc  .        h
    unguarded           -awcrc  .        h
    doubted             -awhrc  awh      h
    verified            -awhrc  .        .
    verified, gone      -aw-rc  aw       h
    not verified        -awhrc  .        .
    renewed             -awhrc  hc       h
    not renewed         -awhrc  c        .
    renewed, not ours   -aw-rc  c        h
    renewed late        -awcrc  c        h
    cancelled           -awhr-  .        c
    cancelled behind    -awhr-  .        c
    cancelled early     -awhrc  c        .
    not cancelled       -awhrc  c        .
    a look at 20        -awhrc  c        c
    a look at 300       -awhrc  hc       hc
    a look at 889       -awcrc  c        hc
    a look at 3000      -awcr-  .        hc
";

/// Returns whether somebody is told.
fn happens(event: &str, table: &mut Table) -> bool {
    let (token, now, give_up) = (token(), at(20), at(4000));
    match event {
        "queued" => table.queued(token),
        "granted" => return table.granted(token, lease(), |_| 5).is_some(),
        "not granted" => table.not_granted(token),
        "abandoned" => table.abandoned(token, u64::MAX, give_up, Some(give_up), now),
        "given up" => table.give_up(token, give_up, now),
        "stray" => table.stray(token, claim(), give_up, now),
        "kept" => return table.keep(token, Keep::from(0, lease().longest())),
        "extends" => return table.extending(token, ttl(2000)),
        "extended" => return extended(table, now),
        "extended late" => return extended(table, at(889)),
        "handed on" => return table.hand_on(token, now),
        "release" => return table.release(token, now) != ReleaseBy::Nobody,
        "released" => table.released(token),
        "left to clean up" => table.leave_to_clean_up(token, now),
        "refused" => return table.refused(token, now).is_some(),
        "doubted" => return table.doubted(token, "k", false).is_some(),
        "verified" => return table.verified(token, Some(true), now).is_some(),
        "verified, gone" => return table.verified(token, Some(false), now).is_some(),
        "not verified" => return table.verified(token, None, now).is_some(),
        "unguarded" => return table.unguarded(token, now).is_some(),
        "renewed" => return renewed(table, Renewed::Yes, now),
        "not renewed" => return renewed(table, Renewed::Failed, now),
        "renewed, not ours" => return renewed(table, Renewed::NotOurs, now),
        "renewed late" => return renewed(table, Renewed::Yes, at(889)),
        "cancelled" => return cancelled(table, true, false),
        "cancelled behind" => return cancelled(table, false, true),
        "cancelled early" => return cancelled(table, false, false),
        "not cancelled" => table.cancel_failed(token, now),
        look => {
            let (_, now) = look.rsplit_once(' ').expect("a look at a time");
            let now = now.parse().expect("a number");
            return table.due_of(token, at(now)).is_some();
        }
    }
    false
}

fn extended(table: &mut Table, now: Moment) -> bool {
    table.extended(token(), (at(20), ttl(2000)), Renewed::Yes, now) != Extension::Over
}

fn renewed(table: &mut Table, outcome: Renewed, now: Moment) -> bool {
    table.renewed(token(), at(10), outcome, now).is_some()
}

fn cancelled(table: &mut Table, conclusive: bool, behind_acquire: bool) -> bool {
    let answer = Cancelled {
        is_recorded: false,
        time: 0,
        found: false,
        conclusive,
        rest: 0,
    };
    table
        .cancelled(token(), answer, behind_acquire, at(20))
        .is_some()
}

#[test]
fn each_event_in_each_state() {
    for row in EXPECTED.trim().lines().skip(1) {
        let (event, expected) = row.trim().split_once("  ").expect("an event");
        let expected: Vec<&str> = expected.split_whitespace().collect();
        let [after, changes, told] = expected[..] else {
            panic!("three columns: {row}");
        };
        for ((before, mut table), after) in in_every_state().into_iter().zip(after.chars()) {
            if after == '.' {
                continue;
            }
            let was = table.clone();
            assert_eq!(
                happens(event, &mut table),
                told.contains(before),
                "{event} in {before}"
            );
            assert_eq!(state(&table), after, "{event} in {before}");
            let is_changed = after != before || changes.contains(before);
            assert_eq!(table != was, is_changed, "{event} in {before}");
        }
    }
}
