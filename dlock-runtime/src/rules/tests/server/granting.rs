//! Who gets a free lock, and which commands find it free.

use std::time::Duration;

use super::NOW;
use super::world::{KEY, World, at_address, name, of_lease, once, waiter};
use crate::rules::commands::{Acquired, Polled};
use crate::rules::queue;
use crate::values::ttl::Ttl;

/// An entry of a future kind.
const STRANGE: &str = "1|s|token|a|30000|0|0||host|1|f|0";

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
fn without_an_address_a_grant_is_made_and_not_published() {
    let mut world = World::with_waiters(&[]);
    let polling = at_address("", "a");
    world.acquire(&polling);
    world.wire.unresponsive.insert(String::new());
    world.release(&once("holder"));
    assert!(matches!(world.poll(&polling), Polled::Yours { .. }));
    assert!(world.pushed().is_empty());
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
