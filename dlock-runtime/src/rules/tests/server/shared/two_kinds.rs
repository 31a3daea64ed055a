//! Two kinds at one key: they never hold the lock at the same time. A claim that may wait stands in
//! the one queue and has its turn; a claim that may not wait is told which kind is there.

use super::*;

/// The holder only has to leave.
fn kinds() -> [(Claim, &'static str); 5] {
    [
        (waiter("x"), "an exclusive lock"),
        (reader("r"), "a read/write lock"),
        (writer("w"), "a read/write lock"),
        (permits("p", 1, 2), "a lock with permits"),
        (owned("o", "me"), "a reentrant lock of the owner `me`"),
    ]
}

/// Each of them with each of another kind.
fn pairs() -> impl Iterator<Item = ((Claim, &'static str), Claim)> {
    kinds().into_iter().flat_map(|holder| {
        let others = kinds().into_iter().filter(move |it| it.1 != holder.1);
        others.map(move |(newcomer, _)| (holder.clone(), newcomer))
    })
}

/// K15: with a key name per kind, both would hold it.
#[test]
fn k15_who_does_not_wait_is_refused_by_every_other_kind() {
    for ((holder, there), newcomer) in pairs() {
        let newcomer = at_once(newcomer);
        let mut world = World::held_by(std::slice::from_ref(&holder));
        assert_eq!(There::read(&world.refused(&newcomer)).to_string(), there);
        assert!(world.holds(&holder) && !world.holds(&newcomer));
        assert!(world.line().is_empty());
        for found in [
            world.give_back(&newcomer).found,
            world.cancel(&newcomer).found,
            world.renew(&newcomer, 30) == Renewed::Yes,
            world.downgrade(&newcomer, 30),
        ] {
            assert!(!found, "{newcomer:?} meets {there}");
        }
        assert!(matches!(world.poll(&newcomer), Polled::Gone { .. }));
        assert!(world.holds(&holder));
    }
}

#[test]
fn who_waits_is_told_when_a_holder_of_another_kind_has_gone() {
    for ((holder, _), newcomer) in pairs() {
        let mut world = World::held_by(std::slice::from_ref(&holder));
        world.queued(&newcomer);
        assert!(matches!(world.poll(&newcomer), Polled::Queued(_)));
        assert!(world.told().is_empty() && !world.holds(&newcomer));
        assert!(world.give_back(&holder).found);
        assert_eq!(world.told(), [name(&newcomer.value)], "{holder:?}");
        assert!(world.holds(&newcomer) && !world.holds(&holder));
        assert!(world.line().is_empty());
    }
}

/// Also by a release, a cancel or a poll that finds nothing of its own.
#[test]
fn k5_who_waits_behind_another_kind_that_lapsed_is_let_in_by_any_look() {
    for ((holder, _), newcomer) in pairs() {
        for look in 0..4 {
            let mut world = World::new();
            world.acquire_for(&holder, 3);
            world.queued(&newcomer);
            world.pass(3000);
            match look {
                0 => assert!(!world.give_back(&holder).found),
                1 => assert!(!world.cancel(&holder).found),
                2 => assert!(matches!(world.poll(&holder), Polled::Gone { .. })),
                _ => drop(world.acquire(&at_once(holder.clone()))),
            }
            assert_eq!(world.told(), [name(&newcomer.value)], "{holder:?}, {look}");
        }
    }
}

/// No claim passes a living head of whatever kind, not even one that fits beside the holders.
#[test]
fn m14_a_head_of_another_kind_is_not_passed() {
    let mut world = World::held_by(&[reader("a")]);
    world.queued(&waiter("x"));
    world.queued(&reader("b"));
    world.queued(&permits("p", 1, 2));
    let once = busy(world.acquire(&at_once(reader("c"))));
    assert_eq!(name(&once.value), "a", "held as its own kind: no mistake");
    world.give_back(&reader("a"));
    assert_eq!(world.told(), ["x"], "and nobody beside it");
    assert_eq!(world.line(), ["b", "p"]);
    world.release(&waiter("x"));
    assert_eq!(world.told(), ["b"]);
    assert!(!world.holds(&permits("p", 1, 2)));
    world.give_back(&reader("b"));
    assert_eq!(world.told(), ["p"]);
}

/// Grants go on as far as the head's kind does.
#[test]
fn a_release_of_an_exclusive_lock_lets_in_all_that_fit() {
    let mut world = World::held_by(&[once("x")]);
    for claim in [reader("a"), reader("b"), writer("w"), reader("c")] {
        world.queued(&claim);
    }
    world.release(&once("x"));
    assert_eq!(world.told(), ["a", "b"]);
    assert_eq!(world.line(), ["w", "c"]);
}

/// A dead head stops no waiter for longer than its heartbeat.
#[test]
fn k7_a_dead_head_of_another_kind_is_passed_over() {
    let mut world = World::held_by(&[once("x")]);
    world.queued(&reader("dead"));
    world.pass(3400);
    world.queued(&waiter("alive"));
    world.pass(100);
    world.release(&once("x"));
    assert_eq!(world.told(), ["alive"]);

    let mut world = World::held_by(&[reader("a")]);
    world.queued(&waiter("dead"));
    world.pass(3400);
    world.queued(&reader("b"));
    world.pass(100);
    assert!(matches!(world.poll(&reader("b")), Polled::Yours { .. }));
}

#[test]
fn readers_and_writers_are_one_kind_and_owners_are() {
    for (holder, newcomer) in [
        (reader("a"), writer("b")),
        (writer("a"), reader("b")),
        (owned("a", "one"), owned("b", "two")),
    ] {
        busy(World::held_by(&[holder]).acquire(&at_once(newcomer)));
    }
}

/// Whoever knows the value may release the lock: only its kind is told.
#[test]
fn of_an_exclusive_holder_no_token_is_told() {
    let mut world = World::held_by(&[once("secret")]);
    assert_eq!(world.refused(&at_once(reader("a"))), "1|x|");
}

/// It has no end, or its rules are not known: no kind can wait for it.
#[test]
fn what_can_not_be_waited_for_is_not_queued_for() {
    for value in ["2|x|t", "1|s|t"] {
        let mut world = World::new();
        world.server.put(KEY, value, Some(world.time + 1000 * MS));
        for claim in [reader("r"), at_once(reader("r")), waiter("x")] {
            assert_eq!(busy(world.acquire(&claim)).value, value);
        }
        assert!(world.line().is_empty());
    }
    let mut world = World::new();
    world.server.put(KEY, "left behind", None);
    let busy = busy(world.acquire(&reader("r")));
    assert_eq!((&*busy.value, busy.left), ("left behind", Left::Endless));
    assert!(world.line().is_empty());
}

/// A foreign lease at the key is a lease too, and ends.
#[test]
fn who_waits_keeps_its_place_behind_a_foreign_lock() {
    let mut world = World::held_by(&[writer("w")]);
    let waiting = reader("a");
    world.queued(&waiting);
    world.server.remove(KEY);
    world
        .server
        .put(KEY, "foreign", Some(world.time + 1000 * MS));
    let answer = world.poll(&waiting);
    assert!(
        matches!(&answer, Polled::Queued(busy) if busy.value == "foreign"),
        "{answer:?}"
    );
    world.queued(&waiting); // executed twice
    world.pass(1000);
    assert!(matches!(world.poll(&waiting), Polled::Yours { .. }));
}

/// The lock is free, and its next kind is whichever comes.
#[test]
fn when_all_have_gone_any_kind_may_come() {
    let mut world = World::new();
    for claim in [
        reader("a"),
        permits("b", 1, 2),
        once("c"),
        owned("d", "one"),
        writer("e"),
    ] {
        world.granted(&claim);
        world.give_back(&claim);
    }
    world.acquire_for(&reader("a"), 5);
    world.pass(5000);
    assert!(matches!(
        world.acquire(&once("x")),
        Acquired::Granted { .. }
    ));
}
