//! `min_hold`: before its time an entry that was released stays, without an owner.

use super::*;
use crate::values::holder::{self, Holder, Reading};

#[test]
fn k12_k13_an_entry_that_is_kept_counts_and_answers_to_nobody() {
    let mut world = World::held_by(&[writer("w")]);
    world.queued(&reader("a"));
    let until = world.time + 1500 * MS;
    assert!(world.release_keeping(&writer("w"), until));
    assert_eq!(world.holders(), ["-w"]);
    assert_eq!(
        world.server.expires(KEY),
        Some(until),
        "no longer the lease"
    );
    assert!(world.told().is_empty());
    assert!(!world.holds(&writer("w")));
    assert_eq!(
        world.renew(&writer("w"), 30),
        Renewed::NotOurs,
        "a late renewal"
    );
    assert!(!world.give_back(&writer("w")).found, "a late release");
    assert!(!world.downgrade(&writer("w"), 30), "a late downgrade");
    world.pass(1499);
    assert!(matches!(world.poll(&reader("a")), Polled::Queued(_)));
    world.pass(1);
    assert!(matches!(world.poll(&reader("a")), Polled::Yours { .. }));
}

#[test]
fn k12_a_cancel_keeps_it_as_well() {
    let mut world = World::held_by(&[writer("w")]);
    let until = world.time + 60_000 * MS;
    let answer = world
        .server
        .cancel(&writer("w"), until, 0, world.time, &mut world.wire);
    assert!(answer.found && answer.conclusive);
    assert_eq!(world.holders(), ["-w"]);
    assert_eq!(
        world.server.expires(KEY),
        Some(until),
        "longer than the lease was"
    );
}

#[test]
fn an_entry_whose_time_is_over_is_not_kept() {
    let mut world = World::held_by(&[writer("w")]);
    world.queued(&reader("a"));
    assert!(world.release_keeping(&writer("w"), world.time));
    assert_eq!(world.told(), ["a"]);
}

#[test]
fn what_is_not_found_is_not_kept() {
    let mut world = World::held_by(&[reader("a")]);
    assert!(!world.release_keeping(&reader("b"), world.time + 1000 * MS));
    assert_eq!(world.holders(), ["a"]);
}

/// All the permits that it took.
#[test]
fn permits_that_are_kept_are_in_use() {
    let mut world = World::held_by(&[permits("a", 2, 3)]);
    world.release_keeping(&permits("a", 2, 3), world.time + 1000 * MS);
    assert_eq!(world.holders(), ["-a", "-a"]);
    world.granted(&permits("b", 1, 3));
    assert!(matches!(
        world.acquire(&at_once(permits("c", 1, 3))),
        Acquired::Busy(_)
    ));
    world.pass(1000);
    world.granted(&permits("c", 2, 3));
}

/// A writer that has become a reader is kept as a reader.
#[test]
fn a_downgraded_writer_is_kept_as_what_it_became() {
    let mut world = World::held_by(&[writer("w")]);
    world.downgrade(&writer("w"), 30);
    world.release_keeping(&writer("w"), world.time + 1000 * MS);
    world.granted(&reader("a"));
    assert!(matches!(
        world.acquire(&at_once(writer("v"))),
        Acquired::Busy(_)
    ));
}

#[test]
fn an_owners_kept_entry_is_not_counted() {
    let mut world = World::held_by(&[owned("a", "one"), owned("b", "one")]);
    world.release_keeping(&owned("a", "one"), world.time + 1000 * MS);
    assert_eq!(
        world.give_back(&owned("b", "one")),
        GivenBack {
            found: true,
            rest: 0,
            is_open: false,
        }
    );
    assert!(matches!(
        world.acquire(&at_once(owned("c", "two"))),
        Acquired::Busy(_)
    ));
}

/// The named holder is a living one, if there is one.
#[test]
fn the_holder_that_is_named_lives() {
    let mut world = World::held_by(&[reader("kept")]);
    let until = world.time + 1000 * MS;
    world.release_keeping(&reader("kept"), until);
    let named = world.server.read(KEY, world.time).unwrap();
    assert_eq!(name(&named), "-kept");
    assert!(matches!(
        holder::read(&named),
        Reading::Holder(Holder::Process(_))
    ));
    world.granted(&reader("a"));
    let hindered = busy(world.acquire(&at_once(writer("w"))));
    assert_eq!(name(&hindered.value), "a");
    assert_eq!(
        hindered.left,
        Left::For(Duration::from_secs(1)),
        "until the first end"
    );
}
