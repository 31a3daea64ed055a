//! Which entries stand in the queue, and for how long.

use std::time::Duration;

use super::world::{KEY, World, at_address, name, once, waiter};
use super::{MS, NOW};
use crate::rules::commands::{Acquire, Acquired, Left, Polled};
use crate::rules::queue;

#[test]
fn only_a_claim_that_may_queue_does() {
    let mut world = World::with_waiters(&[]);
    let answer = world.acquire(&once("a"));
    assert!(
        matches!(&answer, Acquired::Busy(busy) if name(&busy.value) == "holder"),
        "{answer:?}"
    );
    assert!(world.waiting().is_empty());
    let answer = world.acquire(&waiter("a"));
    let Acquired::Queued(busy) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(name(&busy.value), "holder");
    assert_eq!(busy.left, Left::For(Duration::from_secs(30)));
    assert_eq!(world.waiting(), ["a"]);
}

#[test]
fn a_key_that_never_ends_has_no_queue() {
    let mut world = World::new();
    world.server.put(KEY, "left behind", None);
    let answer = world.acquire(&waiter("a"));
    assert!(
        matches!(&answer, Acquired::Busy(busy) if busy.left == Left::Endless),
        "{answer:?}"
    );
    assert!(world.waiting().is_empty());

    let command = Acquire {
        claim: waiter("a"),
        lease: super::acquire(KEY, "a").lease,
        not_after: u64::MAX,
        repair_missing_ttl: Some(Duration::from_secs(7)),
    };
    let answer = world.server.acquire(&command, world.time, &mut world.wire);
    assert!(
        matches!(&answer, Acquired::Queued(busy) if busy.left == Left::For(Duration::from_secs(7))),
        "{answer:?}"
    );
}

#[test]
fn behind_another_layout_nobody_queues() {
    for (value, queues) in [
        ("2|x", false),
        ("10|x", false),
        ("1|s|t", false),
        ("1|x|t", true),
        ("x", true),
        ("x|1", true),
    ] {
        let mut world = World::new();
        world.server.put(KEY, value, Some(NOW + 1000 * MS));
        let answer = world.acquire(&waiter("a"));
        assert_eq!(matches!(answer, Acquired::Queued(_)), queues, "{value}");
        assert_eq!(world.waiting().len(), usize::from(queues));
    }
}

/// A waiter that polls is alive, even if its heartbeat lapsed and no command has noticed it.
#[test]
fn a_poll_comes_before_the_sweep() {
    let mut world = World::with_waiters(&["a"]);
    world.pass(3600);
    world.server.remove(KEY);
    let answer = world.poll(&waiter("a"));
    assert!(matches!(answer, Polled::Yours { .. }), "{answer:?}");

    let mut world = World::with_waiters(&["a"]);
    world.pass(3600);
    world.server.remove(KEY);
    world.acquire(&once("b"));
    assert!(matches!(world.poll(&waiter("a")), Polled::Gone { .. }));
}

#[test]
fn a_queue_ends_seven_seconds_after_its_last_sign_of_life() {
    let mut world = World::with_waiters(&["a", "b"]);
    world.pass(5000);
    world.poll(&waiter("b"));
    world.pass(6999);
    assert_eq!(world.waiting(), ["a", "b"]);
    world.pass(1);
    assert!(world.waiting().is_empty());
    assert!(matches!(world.poll(&waiter("b")), Polled::Gone { .. }));
}

#[test]
fn a_queue_without_entries_is_no_key() {
    let mut world = World::with_waiters(&["a", "b"]);
    assert_eq!(world.server.len(), 2);
    world.cancel(&waiter("a"));
    world.cancel(&waiter("b"));
    assert_eq!(world.server.len(), 1);
}

#[test]
fn lapsed_queues_do_not_pile_up() {
    let mut world = World::new();
    for index in 0..2000 {
        let key = format!("order:{index}");
        for claim in [once("holder"), waiter("a")] {
            let claim = crate::rules::commands::Claim {
                key: key.as_str().into(),
                ..claim
            };
            world.acquire(&claim);
        }
        world.pass(1000);
        assert!(world.server.len() <= 256, "{} keys", world.server.len());
    }
}

/// An entry is identified by all of its bytes: the same token at another address is another entry.
#[test]
fn a_cancel_takes_out_only_its_own_entry() {
    let mut world = World::with_waiters(&["a"]);
    assert!(!world.cancel(&at_address("elsewhere", "a")).found);
    assert_eq!(world.waiting(), ["a"]);
}

#[test]
fn the_machines_times_are_the_scripts() {
    let lua = include_str!("../../lua/prelude.lua");
    let times = format!(
        "local HEARTBEAT, CLAIM, QUEUE_TTL, ENTRIES_AT_ONCE, STEP_BACK = {}, {}, {}, {}, {}\n",
        queue::HEARTBEAT.as_micros(),
        queue::CLAIM.as_millis(),
        queue::QUEUE_TTL.as_millis(),
        queue::ENTRIES_AT_ONCE,
        queue::STEP_BACK.as_micros()
    );
    assert!(lua.contains(&times), "{times}");
}
