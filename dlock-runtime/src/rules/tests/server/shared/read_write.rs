//! Many readers or one writer, and a writer that becomes a reader.

use super::*;

#[test]
fn readers_hold_the_lock_together_and_a_writer_alone() {
    let mut world = World::held_by(&[reader("a"), reader("b")]);
    assert_eq!(world.holders(), ["a", "b"]);
    assert_eq!(name(&busy(world.acquire(&at_once(writer("w")))).value), "a");

    let mut world = World::held_by(&[writer("w")]);
    for other in [reader("a"), writer("v")] {
        assert_eq!(name(&busy(world.acquire(&at_once(other))).value), "w");
    }
}

/// F59, redisson#2144: a reader with a short lease must not end the lease of one with a long one.
#[test]
fn k1_f59_each_reader_has_its_own_end() {
    let mut world = World::new();
    world.acquire_for(&reader("long"), 30);
    world.acquire_for(&reader("short"), 5);
    assert_eq!(world.holders(), ["short", "long"]);
    world.pass(4999);
    let hindered = busy(world.acquire(&at_once(writer("w"))));
    assert_eq!(name(&hindered.value), "short", "who ends first");
    assert_eq!(hindered.left, Left::For(Duration::from_millis(1)));
    world.pass(1);
    assert_eq!(world.holders(), ["long"]);
    assert!(!world.holds(&reader("short")) && world.holds(&reader("long")));
    let hindered = busy(world.acquire(&at_once(writer("w"))));
    assert_eq!(hindered.left, Left::For(Duration::from_secs(25)));
}

/// F59, redisson#7098: a living reader must not keep a dead one's entry.
#[test]
fn k4_f59_a_renewal_touches_only_its_own_entry() {
    let mut world = World::held_by(&[reader("dead"), reader("alive")]);
    world.pass(29_000);
    assert_eq!(world.renew(&reader("alive"), 30), Renewed::Yes);
    world.pass(1000);
    assert_eq!(world.holders(), ["alive"]);
    assert_eq!(world.renew(&reader("dead"), 30), Renewed::NotOurs);
}

/// For a claim that is in the set and in the queue: a server that lost part of its writes has both.
#[test]
fn k14_a_grant_shortens_nothing_that_is_held_already() {
    let mut world = World::held_by(&[reader("a")]);
    world.server.enter(KEY, &reader("a").value, world.time);
    assert!(matches!(world.poll(&reader("b")), Polled::Gone { .. }));
    assert_eq!(world.told(), ["a"], "for 3 s");
    assert_eq!(world.server.expires(KEY), Some(NOW + 30_000 * MS));
    assert_eq!(world.holders(), ["a"]);
}

#[test]
fn a_release_frees_only_itself() {
    let mut world = World::held_by(&[reader("a"), reader("b")]);
    assert!(world.give_back(&reader("a")).found);
    assert_eq!(world.holders(), ["b"]);
    assert!(!world.give_back(&reader("a")).found, "again");
    assert_eq!(world.holders(), ["b"]);
}

/// Otherwise readers that come and go keep a writer out for ever.
#[test]
fn f59_a_waiting_writer_stops_new_readers() {
    let mut world = World::held_by(&[reader("a")]);
    world.queued(&writer("w"));
    world.queued(&reader("b"));
    let hindered = busy(world.acquire(&at_once(reader("c"))));
    assert_eq!(name(&hindered.value), "a");
    world.give_back(&reader("a"));
    assert_eq!(world.holders(), ["w"], "its turn comes before the reader's");
    world.give_back(&writer("w"));
    assert_eq!(world.holders(), ["b"]);
}

#[test]
fn all_readers_at_the_head_are_granted_at_once() {
    let mut world = World::held_by(&[writer("w")]);
    for claim in [reader("a"), reader("b"), writer("v"), reader("c")] {
        world.queued(&claim);
    }
    world.give_back(&writer("w"));
    assert_eq!(world.told(), ["a", "b"]);
    assert_eq!(world.line(), ["v", "c"]);
}

/// The scripts do so in steps, so that the server is never blocked for long; their sender repeats
/// them at once.
#[test]
fn all_readers_are_granted_however_many_they_are() {
    let mut world = World::held_by(&[writer("w")]);
    let readers: Vec<_> = (0..150).map(|it| reader(&format!("{it:03}"))).collect();
    for claim in &readers {
        world.queued(claim);
    }
    world.give_back(&writer("w"));
    assert_eq!(world.told().len(), 150);
    assert!(world.line().is_empty());
}

#[test]
fn a_downgrade_lets_in_readers_and_keeps_writers_out() {
    let mut world = World::held_by(&[writer("w")]);
    for claim in [reader("a"), writer("v")] {
        world.queued(&claim);
    }
    assert!(world.downgrade(&writer("w"), 30));
    assert_eq!(world.told(), ["a"]);
    assert_eq!(world.holders(), ["a", "w"], "the claim's lease ends first");
    assert_eq!(world.line(), ["v"], "K11: no writer came in between");
    assert!(world.holds(&writer("w")), "with the claim that it had");
    world.give_back(&reader("a"));
    assert!(world.give_back(&writer("w")).found);
    assert_eq!(world.holders(), ["v"]);
}

/// F59, redisson#4217: and its renewal goes on.
#[test]
fn k10_f59_a_downgrade_never_shortens_and_can_be_renewed() {
    let mut world = World::held_by(&[writer("w")]);
    assert!(world.downgrade(&writer("w"), 5));
    assert_eq!(world.server.expires(KEY), Some(NOW + 30_000 * MS));
    world.pass(20_000);
    assert!(world.downgrade(&writer("w"), 30), "idempotent");
    assert_eq!(world.server.expires(KEY), Some(NOW + 30_000 * MS));
    assert_eq!(world.renew(&writer("w"), 30), Renewed::Yes);
    world.pass(29_999);
    assert!(world.holds(&writer("w")));
}

#[test]
fn a_downgrade_can_lengthen() {
    let mut world = World::held_by(&[writer("w")]);
    world.pass(20_000);
    assert!(world.downgrade(&writer("w"), 30));
    assert_eq!(world.server.expires(KEY), Some(NOW + 50_000 * MS));
}

#[test]
fn a_late_downgrade_finds_nothing_and_creates_nothing() {
    let mut world = World::held_by(&[writer("w")]);
    world.queued(&writer("v"));
    world.give_back(&writer("w"));
    assert!(!world.downgrade(&writer("w"), 30));
    assert_eq!(world.holders(), ["v"]);
    world.give_back(&writer("v"));
    assert!(!world.downgrade(&writer("v"), 30));
    assert_eq!(world.server.len(), 0);
}

#[test]
fn only_a_writer_is_downgraded() {
    let mut world = World::held_by(&[reader("a")]);
    assert!(!world.downgrade(&reader("a"), 30));
    assert!(world.holds(&reader("a")));
}
