//! Never more than n permits, and each request all or nothing.

use super::*;

/// F61: `n + 1` holders.
#[test]
fn f61_there_are_never_more_than_n() {
    let mut world = World::held_by(&[permits("a", 1, 3), permits("b", 1, 3), permits("c", 1, 3)]);
    assert_eq!(
        name(&busy(world.acquire(&at_once(permits("d", 1, 3)))).value),
        "a"
    );
    world.queued(&permits("d", 1, 3));
    world.give_back(&permits("b", 1, 3));
    assert_eq!(world.holders(), ["d", "a", "c"]);
}

#[test]
fn several_are_taken_all_or_none() {
    let mut world = World::held_by(&[permits("a", 1, 3)]);
    assert_eq!(
        name(&busy(world.acquire(&at_once(permits("all", 3, 3)))).value),
        "a"
    );
    assert_eq!(world.holders(), ["a"]);
    world.granted(&permits("b", 2, 3));
    assert_eq!(world.holders(), ["a", "b", "b"]);
    assert!(world.give_back(&permits("b", 2, 3)).found);
    assert_eq!(world.holders(), ["a"]);
}

/// Otherwise small requests keep a big one out for ever.
#[test]
fn a_small_request_does_not_pass_a_big_one() {
    let mut world = World::held_by(&[permits("a", 1, 3), permits("b", 1, 3)]);
    world.queued(&permits("big", 3, 3));
    world.queued(&permits("small", 1, 3));
    assert!(matches!(
        world.acquire(&at_once(permits("c", 1, 3))),
        Acquired::Busy(_)
    ));
    world.give_back(&permits("a", 1, 3));
    assert_eq!(world.holders(), ["b"], "it waits for all three");
    world.give_back(&permits("b", 1, 3));
    assert_eq!(world.told(), ["big"]);
    world.give_back(&permits("big", 3, 3));
    assert_eq!(world.told(), ["small"]);
}

#[test]
fn as_many_as_fit_are_granted_at_once() {
    let mut world = World::held_by(&[permits("all", 3, 3)]);
    for claim in [permits("a", 1, 3), permits("b", 2, 3), permits("c", 1, 3)] {
        world.queued(&claim);
    }
    world.give_back(&permits("all", 3, 3));
    assert_eq!(world.told(), ["a", "b"]);
}

/// F61, K3: with a counter, each of these would have freed a permit of another holder.
#[test]
fn k3_f61_an_expired_permit_that_is_released_late_frees_nobody_elses() {
    let mut world = World::new();
    world.acquire_for(&permits("late", 1, 2), 5);
    world.granted(&permits("a", 1, 2));
    world.pass(5000);
    world.granted(&permits("b", 1, 2));
    assert!(!world.give_back(&permits("late", 1, 2)).found);
    assert!(!world.cancel(&permits("late", 1, 2)).found);
    assert!(!world.give_back(&permits("late", 1, 2)).found);
    assert_eq!(world.holders(), ["a", "b"]);
}

/// F61, redisson#4462: a killed holder's permit is back by its ttl, though others renew theirs.
#[test]
fn f61_the_permit_of_a_dead_holder_comes_back() {
    let mut world = World::held_by(&[permits("dead", 2, 2)]);
    let waiting = permits("a", 1, 2);
    world.queued(&waiting);
    world.wait_alive(std::slice::from_ref(&waiting), 29_500);
    assert_eq!(world.holders(), ["dead", "dead"]);
    world.pass(500);
    assert!(matches!(world.poll(&waiting), Polled::Yours { .. }));
    assert_eq!(world.holders(), ["a"]);
}

/// F61: while programs with two totals meet, each request counts all permits in use, and is granted
/// by its own total.
#[test]
fn f61_each_is_let_in_by_its_own_number() {
    let mut world = World::held_by(&[permits("a", 1, 3), permits("b", 1, 2)]);
    busy(world.acquire(&at_once(permits("c", 1, 2))));
    world.granted(&permits("d", 1, 3));
    busy(world.acquire(&at_once(permits("e", 1, 3))));
    world.granted(&permits("f", 2, 5));
    world.queued(&permits("two", 1, 2));
    busy(world.acquire(&at_once(permits("g", 1, 9)))); // it came before
    for holder in [permits("a", 1, 3), permits("f", 2, 5)] {
        world.give_back(&holder);
    }
    assert_eq!(world.told(), [""; 0], "two are in use");
    world.give_back(&permits("d", 1, 3));
    assert_eq!(world.told(), ["two"]);
    assert_eq!(world.server.meta(KEY, world.time).as_deref(), Some("1|#|p"));
}

#[test]
fn each_holder_draws_its_own_epoch() {
    let mut world = World::new();
    let first = world.granted(&permits("a", 1, 2));
    let second = world.granted(&permits("b", 1, 2));
    assert!(first < second);
}
