//! `min_hold`: before its time an entry that was released stays, without an owner.

use super::*;
use crate::values::holder::{self, Holder, Reading};

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
            is_recorded: false,
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

/// The clock is set back by ten minutes while these hold the lock.
fn set_back(world: &mut World) {
    world.time -= 600_000 * MS;
}

#[test]
fn nothing_is_kept_for_as_long_as_the_clock_was_set_back() {
    let holders = [
        once("x"),
        reader("r"),
        permits("p", 1, 1),
        owned("o", "one"),
    ];
    for (holder, next) in holders
        .into_iter()
        .zip([once("y"), writer("w"), once("y"), once("y")])
    {
        let mut world = World::held_by(std::slice::from_ref(&holder));
        let keep = Keep::from(world.time, Duration::from_millis(300));
        set_back(&mut world);
        let time = world.time;
        assert!(
            world
                .server
                .release(&holder, keep, time, &mut world.wire)
                .found
        );
        assert_eq!(world.left(), 300, "{holder:?}");
        world.pass(300);
        world.granted(&next);
    }
}

/// Its own longest, which is what it was extended to, or kept for, if that is longer than its lease.
#[test]
fn an_entry_ends_after_its_own_longest_from_when_somebody_looks() {
    type Then = fn(&mut World);
    let rows: [(Then, u64); 5] = [
        (|_| (), 30_000),
        (|world| _ = world.renew(&writer("a"), 20), 30_000),
        (|world| _ = world.renew(&writer("a"), 90), 90_000),
        (|world| _ = world.downgrade(&writer("a"), 60), 60_000),
        (
            |world| {
                let until = world.time + 45_000 * MS;
                world.release_keeping(&writer("a"), until);
            },
            45_000,
        ),
    ];
    for (nth, (then, longest)) in rows.into_iter().enumerate() {
        let mut world = World::held_by(&[writer("a")]);
        then(&mut world);
        set_back(&mut world);
        world.queued(&writer("next"));
        let alive = [writer("next")];
        world.wait_alive(&alive, longest - 500);
        assert!(world.told().is_empty(), "row {nth}");
        world.wait_alive(&alive, 1000);
        assert_eq!(world.told(), ["next"], "row {nth}");
    }
}

/// It does not fit, so nobody publishes to it.
#[test]
fn a_dead_head_lapses_although_the_clock_was_set_back() {
    let mut world = World::held_by(&[reader("a")]);
    for claim in [writer("dead"), writer("dead too"), reader("b")] {
        world.queued(&claim);
    }
    set_back(&mut world);
    for _ in 0..8 {
        world.renew(&reader("a"), 30);
        world.wait_alive(&[reader("b")], 500);
    }
    assert_eq!(world.told(), ["b"]);
}
