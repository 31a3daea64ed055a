//! Two kinds at one key: a mistake that both sides are told of, and that never lets both hold the lock.

use super::*;

/// K15: under different names, both would hold it.
#[test]
fn k15_each_kind_is_refused_by_every_other() {
    let kinds = [
        (once("x"), "an exclusive lock"),
        (reader("r"), "a read/write lock"),
        (permits("p", 1, 2), "a lock with permits"),
        (owned("o", "me"), "a reentrant lock of the owner `me`"),
    ];
    for (holder, there) in &kinds {
        for (newcomer, theirs) in &kinds {
            if there == theirs {
                continue;
            }
            for newcomer in [newcomer.clone(), at_once(newcomer.clone())] {
                let mut world = World::held_by(std::slice::from_ref(holder));
                assert_eq!(There::read(&world.refused(&newcomer)).to_string(), *there);
                assert!(world.holds(holder) && !world.holds(&newcomer));
                assert!(world.line().is_empty());
                for found in [
                    world.give_back(&newcomer).found,
                    world.cancel(&newcomer).found,
                    world.renew(&newcomer, 30) == Renewed::Yes,
                    world.downgrade(&newcomer, 30),
                ] {
                    assert!(!found, "{theirs} meets {there}");
                }
                assert!(matches!(world.poll(&newcomer), Polled::Gone { .. }));
                assert!(world.holds(holder));
            }
        }
    }
}

#[test]
fn readers_and_writers_are_one_kind_and_owners_are() {
    for (holder, newcomer) in [
        (reader("a"), writer("b")),
        (writer("a"), reader("b")),
        (owned("a", "one"), owned("b", "two")),
    ] {
        World::held_by(&[holder]).queued(&newcomer);
    }
}

/// A value is somebody's right to release: no more of it than its kind.
#[test]
fn of_an_exclusive_holder_no_token_is_told() {
    let mut world = World::held_by(&[once("secret")]);
    assert_eq!(world.refused(&reader("a")), "1|");
}

/// Who waits counts, in a free lock too: it would have its turn now, but can't be reached.
#[test]
fn who_waits_as_another_kind_refuses_a_newcomer() {
    for (waits, newcomer, there, words) in [
        (
            "r|secret|a|30000|0|0||host|1|f|0",
            once("x"),
            "r|-|a|30000|0|0||host|1|f|0",
            "somebody who waits for a read/write lock",
        ),
        (
            "p|secret|a|30000|1|2||host|1|f|0",
            once("x"),
            "p|-|a|30000|1|2||host|1|f|0",
            "somebody who waits for a lock with 2 permits",
        ),
    ] {
        let mut world = World::new();
        world.server.enter(KEY, waits, world.time);
        let refused = world.refused(&newcomer);
        assert_eq!(refused, there);
        assert_eq!(There::read(&refused).to_string(), words);
        assert_eq!(world.refused(&waiter("y")), there);
        assert_eq!(
            world.line(),
            ["secret"],
            "left to the polls of its own kind"
        );
    }
}

/// In a lock that is held as the newcomer's own kind: a foreign value has come and gone in between.
#[test]
fn f61_who_waits_as_another_kind_refuses_a_newcomer() {
    for (holder, waits, newcomer, there) in [
        (
            permits("a", 1, 3),
            reader("secret").entry(),
            permits("b", 1, 3),
            "r|-|secret|30000|0|0||host|1|f|0",
        ),
        (reader("a"), waiter("secret").entry(), reader("b"), "x|"),
        (
            owned("a", "one"),
            reader("secret").entry(),
            owned("b", "one"),
            "r|-|secret|30000|0|0||host|1|f|0",
        ),
    ] {
        let mut world = World::held_by(&[holder]);
        world.server.enter(KEY, &waits, world.time);
        assert_eq!(world.refused(&newcomer), there);
        world.pass(3500);
        world.granted(&newcomer); // it has lapsed
    }
}

/// While a foreign lease is at the key, which is a lease too and ends.
#[test]
fn who_waits_keeps_its_place_behind_another_kind() {
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

#[test]
fn an_exclusive_waiter_keeps_its_place_behind_a_set() {
    let mut world = World::with_waiters(&["a"]);
    world.server.remove(KEY);
    world.server.lose_queue(KEY);
    world.granted(&reader("r"));
    world.server.enter(KEY, &waiter("a").entry(), world.time);
    let answer = world.poll(&waiter("a"));
    assert!(
        matches!(&answer, Polled::Queued(busy) if name(&busy.value) == "r"),
        "{answer:?}"
    );
    world.queued(&waiter("a"));
    world.give_back(&reader("r"));
    assert_eq!(world.told(), ["a"], "a head of whatever kind");
    assert_eq!(world.holder().as_deref(), Some("a"));
}

/// And then nobody else: the value excludes the set.
#[test]
fn an_exclusive_grant_ends_the_batch() {
    let mut world = World::held_by(&[reader("r")]);
    world.server.enter(KEY, &waiter("a").entry(), world.time);
    world.server.enter(KEY, &reader("b").entry(), world.time);
    world.give_back(&reader("r"));
    assert_eq!(world.told(), ["a"]);
    assert_eq!(world.line(), ["b"]);
    world.release(&waiter("a"));
    assert_eq!(
        world.line(),
        ["b"],
        "the exclusive lock's commands leave it alone"
    );
    assert!(matches!(world.poll(&reader("b")), Polled::Yours { .. }));
}

/// The lock is free, and its next kind is whatever comes.
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
