//! Which waiters are granted, by which commands, and which are passed over.

use super::*;

/// The second form: the head, which does not fit, gives up.
#[test]
fn k5_a_cancel_of_the_head_lets_in_those_behind_it() {
    let mut world = World::held_by(&[reader("a")]);
    for claim in [writer("w"), reader("b"), reader("c")] {
        world.queued(&claim);
    }
    assert!(world.cancel(&writer("w")).found);
    assert_eq!(world.told(), ["b", "c"]);
    assert_eq!(world.holders().len(), 3);
}

#[test]
fn k5_a_downgrade_that_finds_nothing_grants_too() {
    let mut world = World::new();
    world.acquire_for(&writer("w"), 5);
    world.pass(4000);
    world.queued(&writer("a"));
    world.pass(1000);
    assert!(!world.downgrade(&writer("w"), 30));
    assert_eq!(world.told(), ["a"]);
}

/// K6: the push to a holder was lost, the head's heartbeat has lapsed and the next entry fits.
#[test]
fn k6_a_poll_of_a_holder_grants_first() {
    let mut world = World::held_by(&[reader("a")]);
    world.queued(&writer("silent"));
    world.pass(1000);
    world.queued(&reader("b"));
    world.pass(2500);
    assert!(matches!(world.poll(&reader("a")), Polled::Yours { .. }));
    assert_eq!(world.told(), ["b"]);
}

/// F59: while a reader renews, a dead or stopped writer stops the waiters behind it for 3.5 s and
/// no longer.
#[test]
fn k7_f59_a_dead_writer_at_the_head_is_passed_over() {
    let mut world = World::held_by(&[reader("a")]);
    world.queued(&writer("dead"));
    let waiting = reader("b");
    world.queued(&waiting);
    world.wait_alive(std::slice::from_ref(&waiting), 3000);
    world.pass(499);
    assert!(matches!(world.poll(&waiting), Polled::Queued(_)));
    world.pass(1);
    assert!(matches!(world.poll(&waiting), Polled::Yours { .. }));
    assert_eq!(world.line(), [""; 0]);
}

/// Otherwise they would poll a second after it, as they do when a holder stays.
#[test]
fn who_waits_is_told_when_the_head_may_have_lapsed() {
    let mut world = World::held_by(&[reader("a")]);
    world.queued(&writer("dead"));
    let waiting = reader("b");
    world.queued(&waiting);
    for (pass, left) in [(2000, 1500), (1000, 500)] {
        world.pass(pass);
        let Polled::Queued(busy) = world.poll(&waiting) else {
            panic!("{left}");
        };
        assert_eq!(busy.left, Left::For(Duration::from_millis(left)));
    }
    let Acquired::Queued(busy) = world.acquire(&reader("c")) else {
        panic!("it passes the writer");
    };
    assert_eq!(busy.left, Left::For(Duration::from_millis(500)));
}

/// F60, redisson#1104 and similar issues: however many of them there are.
#[test]
fn k7_f60_forty_dead_waiters_cost_no_more_than_one() {
    let mut world = World::held_by(&[permits("a", 1, 2)]);
    for number in 0..40 {
        world.queued(&permits(&format!("dead{number}"), 2, 2));
    }
    world.pass(3500);
    world.granted_or_queued(&permits("b", 1, 2));
    assert!(world.holds(&permits("b", 1, 2)));
    assert_eq!(world.line(), [""; 0]);
}

impl World {
    fn granted_or_queued(&mut self, claim: &Claim) {
        if matches!(self.acquire(claim), Acquired::Queued(_)) {
            self.poll(claim);
        }
    }
}

/// F60: the living waiters in the order of their arrival, even if they poll in another order.
#[test]
fn f60_those_who_live_are_served_in_order() {
    let mut world = World::held_by(&[writer("w")]);
    let waiters = ["a", "b", "c", "d"].map(writer);
    for claim in &waiters {
        world.queued(claim);
        world.pass(1);
    }
    for claim in waiters.iter().rev() {
        world.poll(claim);
    }
    world.cancel(&waiters[1]);
    world.give_back(&writer("w"));
    for claim in &waiters {
        world.give_back(claim);
    }
    assert_eq!(world.told(), ["a", "c", "d"]);
}

#[test]
fn m1_a_poll_adds_no_owner_to_those_that_hold() {
    let mut world = World::held_by(&[owned("a", "one")]);
    let answer = world.poll(&owned("b", "one"));
    assert!(matches!(answer, Polled::Gone { .. }), "nor an entry");
    assert_eq!(world.holders(), ["a"]);
}

#[test]
fn m13_who_does_not_hear_is_skipped_at_once() {
    let mut world = World::held_by(&[writer("w")]);
    for claim in [reader("dead"), writer("gone"), reader("a")] {
        world.queued(&claim);
    }
    world.wire.unresponsive = ["dead", "gone"].map(str::to_owned).into();
    world.give_back(&writer("w"));
    assert_eq!(world.holders(), ["a"]);
}

/// Beside a holder that stays: only its own grant is taken back.
#[test]
fn where_no_waiter_responds_the_others_keep_the_lock() {
    let mut world = World::held_by(&[permits("a", 1, 3), permits("b", 2, 3)]);
    world.queued(&permits("dead", 2, 3));
    world.wire.unresponsive.insert("dead".to_owned());
    world.give_back(&permits("b", 2, 3));
    assert_eq!(world.holders(), ["a"]);
}

/// The holder counts on the time left, so it is never more than there is.
#[test]
fn m3_yours_rounds_down() {
    let mut world = World::held_by(&[reader("a")]);
    world.time += 1;
    let Polled::Yours { epoch, left, .. } = world.poll(&reader("a")) else {
        panic!("it holds the lock")
    };
    assert_eq!(left, Duration::from_millis(29_999));
    assert!(epoch > NOW);
}

/// A short claim protects against processes that may have stopped.
#[test]
fn in_one_process_a_grant_is_for_the_whole_lease() {
    let mut world = World::held_by(&[]);
    world.server = crate::rules::Server::in_process();
    world.granted(&writer("w"));
    world.queued(&reader("a"));
    world.give_back(&writer("w"));
    assert_eq!(world.wire.pushed[0].lease, Duration::from_secs(30));
}

#[test]
fn what_cant_be_read_is_waited_behind_and_not_granted() {
    for strange in [
        "z|a",
        "p|a||30000|3|2||",
        "p|a||30000|1001|2000||",
        "r|a||0|0|0||",
    ] {
        let mut world = World::new();
        world.server.enter(KEY, strange, world.time);
        world.queued(&reader("a"));
        assert_eq!(world.holders(), [""; 0], "{strange}");
        world.pass(3499);
        assert!(
            matches!(world.poll(&reader("a")), Polled::Queued(_)),
            "{strange}"
        );
        world.pass(1);
        assert!(
            matches!(world.poll(&reader("a")), Polled::Yours { .. }),
            "{strange}"
        );
    }
}

#[test]
fn the_machines_bounds_are_the_scripts() {
    let set = include_str!("../../../lua/set.lua");
    assert!(set.contains(&format!("== '{}'", entry::META)));
}
