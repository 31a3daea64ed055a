//! All entries of one owner hold the lock at the same time; other owners wait.

use super::*;

#[test]
fn the_entries_of_an_owner_hold_the_lock_together() {
    let mut world = World::held_by(&[owned("a", "one"), owned("b", "one")]);
    assert_eq!(world.holders(), ["a", "b"]);
    let hindered = busy(world.acquire(&at_once(owned("c", "two"))));
    assert_eq!(name(&hindered.value), "a");
}

#[test]
fn a_release_says_how_many_entries_still_hold_the_lock() {
    let mut world = World::held_by(&[owned("a", "one"), owned("b", "one"), owned("c", "one")]);
    for (name, found, rest) in [
        ("a", true, 2),
        ("a", false, 0),
        ("b", true, 1),
        ("c", true, 0),
    ] {
        let given_back = world.give_back(&owned(name, "one"));
        assert_eq!(
            given_back,
            GivenBack {
                is_recorded: false,
                found,
                rest,
                is_open: false
            },
            "{name}"
        );
    }
    assert_eq!(world.server.len(), 0);
}

/// The other holders of a read/write lock are not counted for this one.
#[test]
fn a_release_counts_for_owners_only() {
    let mut world = World::held_by(&[reader("a"), reader("b")]);
    let given_back = world.give_back(&reader("a"));
    assert_eq!(
        given_back,
        GivenBack {
            is_recorded: false,
            found: true,
            rest: 0,
            is_open: false,
        }
    );
}

/// F15: counted by entries, so that a command that is executed twice counts once.
#[test]
fn k2_f15_an_entry_that_is_taken_or_given_back_twice_counts_once() {
    let mut world = World::held_by(&[owned("a", "one"), owned("b", "one")]);
    assert!(matches!(
        world.acquire(&owned("b", "one")),
        Acquired::Yours { .. }
    ));
    assert_eq!(world.give_back(&owned("b", "one")).rest, 1);
    assert!(!world.give_back(&owned("b", "one")).found);
    assert_eq!(world.holders(), ["a"]);
}

/// Otherwise a fenced resource would refuse one process of the owner after another has written.
#[test]
fn all_entries_of_a_hold_share_its_epoch_and_the_next_hold_has_a_higher_one() {
    let mut world = World::new();
    let hold = world.granted(&owned("a", "one"));
    world.pass(5);
    assert_eq!(world.granted(&owned("b", "one")), hold);
    let Acquired::Yours { epoch, .. } = world.acquire(&owned("b", "one")) else {
        panic!("it is its own already")
    };
    assert_eq!(epoch, hold);
    world.give_back(&owned("a", "one"));
    assert_eq!(world.granted(&owned("c", "one")), hold, "the hold goes on");
    for name in ["b", "c"] {
        world.give_back(&owned(name, "one"));
    }
    assert!(world.granted(&owned("a", "one")) > hold);
}

#[test]
fn a_grant_from_the_queue_has_the_epoch_of_the_hold() {
    let mut world = World::held_by(&[owned("x", "one")]);
    for claim in [owned("a", "two"), owned("b", "two")] {
        world.queued(&claim);
    }
    world.give_back(&owned("x", "one"));
    let epochs: Vec<u64> = world.wire.pushed.iter().map(|it| it.epoch).collect();
    assert_eq!(world.told(), ["a", "b"]);
    assert_eq!(epochs[0], epochs[1]);
    let Polled::Yours { epoch, .. } = world.poll(&owned("b", "two")) else {
        panic!("it was granted")
    };
    assert_eq!(epoch, epochs[0]);
}

/// K9: a holds and waits for its own sub-task c, c stands behind b, and b waits for a.
#[test]
fn k9_the_owner_that_holds_the_lock_passes_the_queue() {
    let mut world = World::held_by(&[owned("a", "one")]);
    world.queued(&owned("b", "two"));
    world.granted(&owned("c", "one"));
    assert_eq!(world.line(), ["b"]);
}

#[test]
fn k9_an_owner_that_comes_to_hold_the_lock_is_let_in_by_its_poll() {
    let mut world = World::held_by(&[owned("x", "zero")]);
    for claim in [owned("a", "one"), owned("b", "two"), owned("c", "one")] {
        world.queued(&claim);
    }
    world.give_back(&owned("x", "zero"));
    assert_eq!(world.told(), ["a"]);
    let Polled::Yours { left, .. } = world.poll(&owned("c", "one")) else {
        panic!("its owner holds the lock")
    };
    assert_eq!(left, queue::CLAIM);
    assert!(matches!(world.poll(&owned("b", "two")), Polled::Queued(_)));
    assert_eq!(world.line(), ["b"]);
}

/// Only behind itself: a free lock goes to the head.
#[test]
fn k9_an_owner_that_does_not_hold_the_lock_passes_nobody() {
    let mut world = World::new();
    world.server.enter(KEY, "?", world.time); // of another version
    world.queued(&owned("a", "one"));
    assert!(matches!(world.poll(&owned("a", "one")), Polled::Queued(_)));
    assert_eq!(world.holders(), [""; 0]);
}

#[test]
fn k4_an_owners_dead_process_loses_its_entry_and_the_owner_keeps_the_lock() {
    let mut world = World::held_by(&[owned("dead", "one"), owned("alive", "one")]);
    world.pass(29_000);
    assert_eq!(world.renew(&owned("alive", "one"), 30), Renewed::Yes);
    world.pass(1000);
    assert_eq!(world.holders(), ["alive"]);
    assert!(matches!(
        world.acquire(&at_once(owned("b", "two"))),
        Acquired::Busy(_)
    ));
}

/// An owner whose name begins like another's.
#[test]
fn an_owner_is_compared_whole() {
    let mut world = World::held_by(&[owned("a", "one")]);
    for other in ["on", "one1", ""] {
        let answer = world.acquire(&at_once(owned("b", other)));
        assert!(matches!(answer, Acquired::Busy(_)), "{other}: {answer:?}");
    }
}
