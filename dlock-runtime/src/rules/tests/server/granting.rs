//! Who gets a free lock, and which commands find it free.

use std::time::Duration;

use super::world::{KEY, World, at_address, name, of_lease, once, until_then, waiter};
use super::{MS, NOW};
use crate::rules::commands::{Acquired, Polled};
use crate::rules::queue;
use crate::values::ttl::Ttl;

/// An entry of a future kind.
const STRANGE: &str = "1|s|token|a|30000|0|0||host|1|f|0";

#[test]
fn a_release_grants_to_the_first_and_tells_only_it() {
    let mut world = World::with_waiters(&["a", "b"]);
    world.pass(10);
    assert!(world.release(&once("holder")));
    assert_eq!(world.holder().as_deref(), Some("a"));
    assert_eq!(world.waiting(), ["b"]);
    let [grant] = &world.wire.pushed[..] else {
        panic!("{:?}", world.wire.pushed)
    };
    assert_eq!((&*grant.key, &grant.value), (KEY, &waiter("a").value));
    assert_eq!((grant.time, grant.lease), (world.time, queue::CLAIM));
    assert!(grant.epoch >= world.time);
}

#[test]
fn a_grant_is_for_the_claim_or_a_shorter_lease() {
    let mut world = World::with_waiters(&["a"]);
    world.release(&once("holder"));
    assert_eq!(world.left(), 3000, "of 30 s");

    let mut world = World::with_waiters(&[]);
    let short = Ttl::new(Duration::from_millis(20)).unwrap();
    world.acquire(&of_lease(short, "a", "a"));
    world.release(&once("holder"));
    assert_eq!(world.left(), 20);
}

#[test]
fn each_grant_draws_a_higher_epoch() {
    let mut world = World::with_waiters(&["a", "b", "c"]);
    for name in ["holder", "a", "b"] {
        world.release(&waiter(name));
    }
    let epochs: Vec<u64> = world.wire.pushed.iter().map(|it| it.epoch).collect();
    assert!(epochs.is_sorted_by(|one, next| one < next), "{epochs:?}");
}

/// K5, first form: the holder lapsed and its release comes late; a waiter fits and would sleep
/// until its poll.
#[test]
fn k5_a_release_that_finds_nothing_grants_too() {
    let mut world = World::with_waiters(&[]);
    world.pass(29_999);
    world.acquire(&waiter("a"));
    world.pass(1);
    assert!(!world.release(&once("holder")));
    assert_eq!(world.holder().as_deref(), Some("a"));
}

/// K5, for the watchdog's command.
#[test]
fn k5_a_cancel_that_finds_nothing_grants_too() {
    let mut world = World::with_waiters(&[]);
    world.pass(29_999);
    world.acquire(&waiter("a"));
    world.pass(1);
    let cancelled = world.cancel(&once("holder"));
    assert!(!cancelled.found && cancelled.conclusive);
    assert_eq!(world.holder().as_deref(), Some("a"));
}

/// K5, second form: the head gives up.
#[test]
fn k5_a_cancel_of_the_head_grants_to_the_one_behind_it() {
    let mut world = World::with_waiters(&[]);
    world.pass(29_999);
    world.acquire(&waiter("a"));
    world.acquire(&waiter("b"));
    world.pass(1);
    assert!(world.cancel(&waiter("a")).found);
    assert_eq!(world.holder().as_deref(), Some("b"));
}

#[test]
fn a_release_of_somebody_elses_lock_changes_nothing() {
    let mut world = World::with_waiters(&["a"]);
    assert!(!world.release(&waiter("a")));
    assert_eq!(world.holder().as_deref(), Some("holder"));
    assert_eq!(world.waiting(), ["a"]);
}

#[test]
fn m14_a_newcomer_grants_to_the_head_and_queues_behind_it() {
    let mut world = World::with_waiters(&[]);
    world.pass(29_999);
    world.acquire(&waiter("a"));
    world.pass(1);
    let answer = world.acquire(&waiter("b"));
    assert!(
        matches!(&answer, Acquired::Queued(busy) if name(&busy.value) == "a"),
        "{answer:?}"
    );
    assert_eq!(world.pushed(), ["a"]);
    assert_eq!(world.waiting(), ["b"]);
}

#[test]
fn m14_a_newcomer_that_does_not_wait_is_busy_all_the_same() {
    let mut world = World::with_waiters(&[]);
    world.pass(29_999);
    world.acquire(&waiter("a"));
    world.pass(1);
    let answer = world.acquire(&once("b"));
    assert!(
        matches!(&answer, Acquired::Busy(busy) if name(&busy.value) == "a"),
        "{answer:?}"
    );
    assert_eq!(world.pushed(), ["a"]);
}

/// An acquire that arrives again while its claim is the head finds the lock free: it is the head's.
#[test]
fn m14_a_duplicate_of_the_heads_acquire_is_yours() {
    let mut world = World::with_waiters(&[]);
    world.pass(29_999);
    world.acquire(&waiter("a"));
    world.pass(1);
    let answer = world.acquire(&waiter("a"));
    let Acquired::Yours { epoch, left, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(left, queue::CLAIM, "not the whole lease");
    assert!(epoch > world.wire.pushed[0].epoch);
    assert!(world.waiting().is_empty());
}

#[test]
fn m12_any_poll_grants_to_the_head() {
    let mut world = World::with_waiters(&["a", "b"]);
    world.server.remove(KEY); // a foreign release notifies no waiter
    assert!(matches!(world.poll(&waiter("b")), Polled::Queued(_)));
    assert_eq!(world.pushed(), ["a"]);
    assert_eq!(world.holder().as_deref(), Some("a"));
}

#[test]
fn m13_who_does_not_hear_is_skipped_at_once() {
    let mut world = World::with_waiters(&["dead", "gone", "a"]);
    world.wire.unresponsive = ["dead", "gone"].map(str::to_owned).into();
    world.release(&once("holder"));
    assert_eq!(world.holder().as_deref(), Some("a"));
    assert!(world.waiting().is_empty());
}

#[test]
fn where_no_waiter_responds_the_lock_is_free() {
    let mut world = World::with_waiters(&["dead", "gone"]);
    world.wire.unresponsive = ["dead", "gone"].map(str::to_owned).into();
    world.release(&once("holder"));
    assert_eq!(world.holder(), None);
    assert_eq!(world.server.len(), 0);
}

#[test]
fn a_refused_push_keeps_the_grant_and_the_poll_finds_it() {
    let mut world = World::with_waiters(&["a", "b"]);
    world.wire.forbidden = true;
    world.release(&once("holder"));
    world.pass(500);
    let answer = world.poll(&waiter("a"));
    assert!(
        matches!(answer, Polled::Yours { left, .. } if left.as_millis() == 2500),
        "{answer:?}"
    );
    assert_eq!(world.waiting(), ["b"]);
}

#[test]
fn without_an_address_a_grant_is_made_and_not_published() {
    let mut world = World::with_waiters(&[]);
    let polling = at_address("", "a");
    world.acquire(&polling);
    world.wire.unresponsive.insert(String::new());
    world.release(&once("holder"));
    assert!(matches!(world.poll(&polling), Polled::Yours { .. }));
    assert!(world.pushed().is_empty());
}

/// K7: without heartbeats, n dead waiters whose sockets look alive cost n claims.
#[test]
fn k7_a_place_without_a_sign_of_life_is_passed_over() {
    let mut world = World::with_waiters(&["silent", "a"]);
    for (millis, polls) in [(3000, true), (499, false), (1, false)] {
        world.pass(millis);
        if polls {
            world.poll(&waiter("a"));
        }
    }
    world.release(&once("holder"));
    assert_eq!(world.pushed(), ["a"]);

    let mut world = World::with_waiters(&["silent", "a"]);
    world.pass(3499);
    world.release(&once("holder"));
    assert_eq!(world.pushed(), ["silent"], "until 3.5 s are over");
}

#[test]
fn more_silent_entries_than_one_sweep_takes_are_passed_over_in_one_grant() {
    let names: Vec<String> = (0..40).map(|number| format!("silent{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut world = World::with_waiters(&names);
    world.pass(3500);
    world.acquire(&waiter("a"));
    world.release(&once("holder"));
    assert_eq!(world.pushed(), ["a"]);
    assert!(world.waiting().is_empty());
}

/// One pass over the queue must not block the server; the next one goes on.
#[test]
fn a_sweep_takes_two_hundred_entries_those_that_lapsed_first() {
    let mut world = World::with_waiters(&[]);
    world.server.enter(KEY, STRANGE, world.time);
    for number in 0..204 {
        world.pass(1);
        world.acquire(&waiter(&format!("{number}")));
    }
    world.pass(3500);
    // No readable entry is left alive, and the head is alive and can't be read.
    world.server.enter(KEY, STRANGE, world.time);
    world.release(&once("holder"));
    assert_eq!(world.waiting(), ["?", "200", "201", "202", "203"]);
    world.release(&once("holder"));
    assert_eq!(world.waiting(), ["?"]);
}

/// Only readable entries are granted; the clients that wrote the others handle those.
#[test]
fn behind_a_place_that_cant_be_read_everybody_waits_until_it_lapses() {
    let mut world = World::new();
    world.server.enter(KEY, STRANGE, NOW);
    world.pass(1000);
    let answer = world.acquire(&waiter("a"));
    assert!(
        matches!(&answer, Acquired::Queued(busy) if busy.value.is_empty()),
        "{answer:?}"
    );
    assert!(matches!(world.acquire(&once("b")), Acquired::Busy(_)));
    assert!(!world.release(&waiter("c")));
    assert!(matches!(world.poll(&waiter("a")), Polled::Queued(_)));
    assert_eq!(world.waiting(), ["?", "a"]);
    assert_eq!(world.holder(), None);
    world.pass(2500);
    assert!(matches!(world.poll(&waiter("a")), Polled::Yours { .. }));
}

/// Whoever wrote it: with a heartbeat in time it is waited for, without one it is passed over.
#[test]
fn an_entry_without_a_heartbeat_is_passed_over_whatever_it_says() {
    for entry in [
        STRANGE,
        "2|x|token",
        "1|z|",
        "garbage",
        "",
        &waiter("b").value,
    ] {
        for commands in [
            |world: &mut World| matches!(world.acquire(&once("a")), Acquired::Granted { .. }),
            |world: &mut World| matches!(world.acquire(&waiter("a")), Acquired::Granted { .. }),
            |world: &mut World| {
                world.acquire(&once("holder"));
                world.acquire(&waiter("a"));
                world.release(&once("holder"));
                world.pushed() == ["a"]
            },
        ] {
            let mut world = World::new();
            world.server.enter_silently(KEY, entry, NOW);
            assert!(commands(&mut world), "{entry}");
            assert!(world.waiting().is_empty(), "{entry}");
        }
    }
}

/// `min_hold`: before its time the lock stays, without an owner; K12, K13.
#[test]
fn k13_a_lock_that_is_kept_is_nobodys_and_is_not_granted() {
    let mut world = World::with_waiters(&["a"]);
    let until = world.time + 1500 * MS;
    assert!(world.release_keeping(&once("holder"), until));
    assert_eq!(world.holder().as_deref(), Some("-holder"));
    assert_eq!(world.left(), 1500, "no longer the lease");
    assert!(world.pushed().is_empty());
    let renewal = super::renewal(KEY, &waiter("holder").value, 30_000);
    assert_eq!(
        world.server.renew(&renewal, world.time),
        super::Renewed::NotOurs,
        "a late renewal"
    );
    assert!(!world.release(&once("holder")), "a late release");
    assert!(matches!(world.poll(&waiter("a")), Polled::Queued(_)));
    world.pass(1500);
    assert!(matches!(world.poll(&waiter("a")), Polled::Yours { .. }));
}

#[test]
fn k12_a_cancel_keeps_the_lock_as_well() {
    let mut world = World::with_waiters(&["a"]);
    let until = world.time + 60_000 * MS;
    let holder = once("holder");
    let answer = world.server.cancel(
        &holder,
        until_then(until, world.time),
        0,
        world.time,
        &mut world.wire,
    );
    assert!(answer.found && answer.conclusive);
    assert_eq!(world.left(), 60_000, "longer than the lease was");
    assert!(world.pushed().is_empty());
}

#[test]
fn a_lock_whose_time_is_over_is_not_kept() {
    let mut world = World::with_waiters(&["a"]);
    let until = world.time;
    assert!(world.release_keeping(&once("holder"), until));
    assert_eq!(world.pushed(), ["a"]);
}
