//! The gate's driver: who it is, what it has to do, and when.

use super::gate::{COUNTS, Line, asking, held, offer, offered, position, token, vacant};
use super::{at, ms};
use crate::policy::gate::{Fate, Look, Next, Place, Seat};
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// Token 1 is in the queue, to be polled at 50.
fn queued() -> Line {
    let (mut gate, _) = asking(["a"]);
    assert_eq!(gate.queued(token(1), at(50)), Fate::Taken);
    gate
}

#[test]
fn there_is_one_driver_while_somebody_waits() {
    let mut gate = Line::default();
    assert!(!gate.take_wheel(), "nobody waits");
    let a = gate.enter("a");
    gate.enter("b");
    assert!(gate.take_wheel() && !gate.take_wheel(), "one");
    gate.leave(a);
    assert!(!gate.take_wheel(), "who waits may go, the driver stays");
    gate.driver_gone();
    assert!(gate.take_wheel(), "the next one");
}

#[test]
fn a_driver_is_dismissed_when_nobody_waits_and_not_before() {
    let mut gate = Line::default();
    let a = gate.enter("a");
    assert!(gate.take_wheel());
    assert_eq!(gate.next(at(0)), Next::Ask);
    gate.leave(a);
    let b = gate.enter("b");
    assert!(!gate.take_wheel(), "it was not dismissed meanwhile");
    gate.leave(b);
    assert_eq!(gate.next(at(0)), Next::Rest);
    assert!(!gate.take_wheel(), "still nobody waits");
    gate.enter("c");
    assert!(gate.take_wheel(), "and a new one is needed");
}

/// Whatever the place is: with somebody in line there is something to do, or something to wait for.
#[test]
fn what_a_driver_has_to_do() {
    let held = || {
        let mut gate = held();
        gate.enter("b");
        gate
    };
    let gone = || {
        let (mut gate, _) = asking(["a"]);
        gate.ended(token(1), at(70));
        gate
    };
    let (ask, sleep) = (Next::Ask, |until| Next::Sleep(at(until)));
    let poll = Next::Poll(position(1));
    let asked = Next::Sleep(Moment::NEVER); // the answer wakes it
    for (name, mut gate, now, expected) in [
        ("gone", gone(), 69, sleep(70)),
        ("gone", gone(), 70, ask.clone()),
        ("asking", asking(["a"]).0, 5000, asked),
        ("queued", queued(), 49, sleep(50)),
        ("queued", queued(), 50, poll.clone()),
        ("queued", queued(), 5000, poll),
        ("offered", offered(["a"]).0, COUNTS - 1, sleep(COUNTS)),
        ("held", held(), 0, ask),
    ] {
        let before = gate.place().clone();
        assert_eq!(gate.next(at(now)), expected, "{name} at {now}");
        assert_eq!(gate.place(), &before, "{name}: only looked at");
    }
}

#[test]
fn an_offer_that_nobody_took_is_given_up_once_and_asked_for_again() {
    let (mut gate, [a]) = offered(["a"]);
    assert_eq!(gate.next(at(COUNTS)), Next::GiveUp(position(1)));
    assert_eq!(gate.place(), &vacant(COUNTS));
    assert_eq!(gate.next(at(COUNTS)), Next::Ask);
    assert_eq!(gate.leave(a), None, "it has been named");
}

#[test]
fn the_next_in_line_asks_while_the_one_before_holds() {
    let mut gate = held();
    let b = gate.enter("b");
    assert!(gate.take_wheel());
    assert_eq!(gate.next(at(1)), Next::Ask);
    gate.asking(position(2));
    gate.left(token(1), at(2));
    assert_eq!(gate.place(), &Place::Asking(position(2)), "left alone");
    gate.leave(b);
    assert_eq!(gate.next(at(3)), Next::Rest);
}

#[test]
fn a_pause_holds_back_the_next_acquire_and_nothing_else() {
    let mut gate = Line::default();
    gate.enter("a");
    gate.pause(at(90));
    assert_eq!(gate.next(at(89)), Next::Sleep(at(90)));
    gate.pause(at(60));
    assert_eq!(gate.next(at(60)), Next::Ask, "the last word counts");
    for mut gate in [asking(["a"]).0, queued(), offered(["a"]).0] {
        let before = gate.clone();
        gate.pause(at(90));
        assert_eq!(gate, before);
    }
}

/// No connection, say, to ask behind one's own process: the server is left alone all the same.
#[test]
fn a_pause_counts_while_another_of_this_process_holds_the_lock() {
    let mut gate = held();
    gate.enter("b");
    assert_eq!(gate.next(at(0)), Next::Ask);
    gate.pause(at(90));
    assert_eq!(gate.next(at(89)), Next::Sleep(at(90)));
    gate.left(token(1), at(10));
    assert_eq!(
        gate.next(at(89)),
        Next::Sleep(at(90)),
        "still no connection"
    );
    gate.hurry(at(20));
    assert_eq!(gate.next(at(20)), Next::Ask);
}

#[test]
fn who_hurries_asks_at_once_and_never_later() {
    let mut gate = queued();
    gate.hurry(at(60));
    assert_eq!(gate.next(at(50)), Next::Poll(position(1)), "never later");
    gate.hurry(at(20));
    assert_eq!(gate.next(at(20)), Next::Poll(position(1)));

    let mut gate = Line::default();
    gate.enter("a");
    gate.pause(at(90));
    gate.hurry(at(95));
    assert_eq!(gate.next(at(89)), Next::Sleep(at(90)), "never later");
    gate.hurry(at(20));
    assert_eq!(gate.next(at(20)), Next::Ask);

    for mut gate in [offered(["a"]).0, held()] {
        let before = gate.clone();
        gate.hurry(at(20));
        assert_eq!(gate, before, "nothing to ask");
    }
}

/// A driver that goes with its runtime leaves the place to the next one, as it stands.
#[test]
fn a_new_driver_takes_up_the_place_of_the_old_one() {
    let mut gate = queued();
    assert!(gate.take_wheel());
    gate.driver_gone();
    assert_eq!(gate.granted(token(1), offer(0)), Fate::Taken, "a push");
    assert!(gate.take_wheel());
    assert_eq!(gate.next(at(1)), Next::Sleep(at(COUNTS)));
}

#[test]
fn what_is_missed_while_the_acquire_is_on_its_way_is_looked_for_at_once() {
    let (mut gate, _) = asking(["a"]);
    gate.hurry(at(5));
    assert_eq!(gate.queued(token(1), at(1000)), Fate::Taken);
    assert_eq!(gate.next(at(6)), Next::Poll(position(1)));
    assert_eq!(gate.queued(token(1), at(1000)), Fate::Taken);
    assert_eq!(gate.next(at(7)), Next::Sleep(at(1000)), "once");
}

/// Whoever may publish can say each millisecond that a place was granted.
#[test]
fn hints_cost_ten_polls_a_second_however_many_there_are() {
    let (mut gate, _) = asking(["a"]);
    assert_eq!(gate.queued(token(1), at(1000)), Fate::Taken);
    let mut polls = Vec::new();
    for now in 0..1000 {
        gate.hint(at(now));
        if gate.next(at(now)) == Next::Poll(position(1)) {
            polls.push(now);
            assert_eq!(gate.queued(token(1), at(now + 1000)), Fate::Taken);
        }
    }
    assert_eq!(polls, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
}

/// A poll costs the server a hundred times what a message does that hints at a place.
#[test]
fn only_the_first_hint_of_a_place_is_a_poll_of_its_own() {
    let mut gate = queued();
    let mut alone = Vec::new();
    for now in 0..500 {
        gate.hint(at(now));
        if now == 250 {
            gate.hurry(at(now)); // this was not said by just anybody
        }
        if gate.next(at(now)) == Next::Poll(position(1)) {
            if gate.polls_by_itself() {
                alone.push(now);
            }
            assert_eq!(gate.queued(token(1), at(now + 1000)), Fate::Taken);
        }
    }
    assert_eq!(alone, [0, 250]);
}

/// A fleet with different secrets is told of every grant by a hint: ten a second for the key would be ten locks a second.
#[test]
fn each_place_may_be_hinted_at_at_once() {
    let mut gate = queued();
    assert!(gate.hint(at(10)));
    assert_eq!(gate.next(at(10)), Next::Poll(position(1)));
    assert!(gate.ended(token(1), at(10)));
    assert_eq!(gate.next(at(11)), Next::Ask);
    gate.asking(position(2));
    assert_eq!(gate.queued(token(2), at(1011)), Fate::Taken);
    assert!(gate.hint(at(12)));
    assert_eq!(gate.next(at(12)), Next::Poll(position(2)), "its first");
    assert_eq!(gate.queued(token(2), at(1012)), Fate::Taken);
    assert!(gate.hint(at(13)));
    assert_eq!(gate.next(at(13)), Next::Sleep(at(112)));
}

/// The poll that is on its way may have been executed before the grant that is told of now.
#[test]
fn what_is_hinted_at_while_a_command_is_on_its_way_is_asked_for_afterwards() {
    let mut gate = queued();
    assert_eq!(gate.next(at(50)), Next::Poll(position(1)));
    assert!(gate.hint(at(51)));
    assert_eq!(gate.queued(token(1), at(1050)), Fate::Taken);
    assert_eq!(gate.next(at(52)), Next::Poll(position(1)));
    assert_eq!(gate.queued(token(1), at(1050)), Fate::Taken);
    assert_eq!(gate.next(at(53)), Next::Sleep(at(1050)), "once");

    let (mut gate, _) = asking(["a"]);
    assert!(gate.hint(at(5)));
    assert!(!gate.hint(at(6)), "it is asked anyway");
    assert_eq!(gate.queued(token(1), at(1000)), Fate::Taken);
    assert_eq!(gate.next(at(7)), Next::Poll(position(1)));
}

#[test]
fn a_hint_never_puts_a_poll_off_and_says_nothing_elsewhere() {
    let mut gate = queued();
    assert!(gate.hint(at(10)));
    assert_eq!(gate.queued(token(1), at(50)), Fate::Taken);
    assert!(
        !gate.hint(at(20)),
        "the poll at 50 is sooner than the next hint that counts"
    );
    assert_eq!(gate.next(at(50)), Next::Poll(position(1)));
    for mut gate in [offered(["a"]).0, held(), Line::default()] {
        let before = gate.clone();
        assert!(!gate.hint(at(20)));
        assert_eq!(gate, before);
    }
}

/// Three wait, and the lock is offered at 0 for a minute.
fn offered_for_long() -> (super::gate::Line, [Seat; 3]) {
    let (mut gate, seats) = asking(["a", "b", "c"]);
    let mut long = offer(0);
    long.lease = ms(60_000);
    assert_eq!(gate.granted(token(1), long), Fate::Taken);
    (gate, seats)
}

#[test]
fn whoever_does_not_take_its_turn_is_passed_over_and_keeps_its_seat() {
    let (mut gate, [a, b, c]) = offered_for_long();
    assert_eq!((gate.called(), gate.first()), (Some(&"a"), Some(&"a")));
    assert_eq!(gate.next(at(10)), Next::Sleep(at(1010)));
    assert_eq!(gate.next(at(1009)), Next::Sleep(at(1010)));
    assert_eq!(gate.next(at(1010)), Next::PassOn);
    assert_eq!((gate.called(), gate.first()), (Some(&"b"), Some(&"b")));
    assert_eq!(gate.look(c, at(1011)), Look::Wait);
    assert_eq!(gate.look(a, at(1011)), Look::Wait, "its turn is over");
    assert!(matches!(gate.look(b, at(1012)), Look::Yours(..)));

    assert!(gate.hears(a), "it was taken for deaf");
    assert!(!gate.hears(a) && !gate.hears(c));
    assert_eq!(gate.first(), Some(&"a"), "and it is first again");
}

#[test]
fn a_turn_passes_on_when_its_waiter_leaves_and_skips_the_deaf() {
    let (mut gate, [a, b, c]) = offered_for_long();
    assert_eq!(gate.next(at(0)), Next::Sleep(at(1000)));
    assert_eq!(gate.next(at(1000)), Next::PassOn); // a is deaf
    assert_eq!(gate.leave(b), None);
    assert_eq!(gate.called(), Some(&"c"));
    assert_eq!(gate.leave(a), None, "not its turn");
    assert_eq!(gate.called(), Some(&"c"));
    assert!(matches!(gate.look(c, at(1500)), Look::Yours(..)));
}

#[test]
fn with_nobody_who_hears_the_lock_is_given_up_and_not_asked_for() {
    let (mut gate, [a]) = asking(["a"]);
    let mut long = offer(0);
    long.lease = ms(60_000);
    gate.granted(token(1), long);
    assert_eq!(gate.next(at(0)), Next::Sleep(at(1000)));
    assert_eq!(gate.next(at(1000)), Next::GiveUp(position(1)));
    assert_eq!(gate.next(at(9000)), Next::Sleep(Moment::NEVER));

    // What was asked for before that is unwanted as well.
    gate.enter("b");
    assert_eq!(gate.next(at(9000)), Next::Ask);
    gate.asking(position(2));
    let b = a + 1;
    gate.leave(b);
    assert_eq!(gate.granted(token(2), long), Fate::Unwanted(position(2)));

    assert!(gate.hears(a));
    assert_eq!(gate.next(at(9001)), Next::Ask, "it is heard of again");
}

#[test]
fn a_wheel_that_is_seized_leaves_an_acquire_to_be_cleaned_up() {
    let (mut gate, _) = asking(["a"]);
    assert!(gate.take_wheel());
    assert_eq!(gate.seize_wheel(), Some(position(1)));
    assert!(!gate.take_wheel(), "it has a driver");
    assert_eq!(gate.next(at(0)), Next::Ask);
    assert!(!gate.ended(token(1), at(0)), "the old answer means nothing");

    let mut gate = queued();
    assert_eq!(gate.seize_wheel(), None, "a place goes on");
    assert_eq!(gate.next(at(50)), Next::Poll(position(1)));
}

/// Of 1 s granted at 0, to be handed on once within 50 ms; taken at 1, and one more waits.
fn held_in_a_row() -> (Line, [Seat; 2]) {
    let (mut gate, seats) = asking(["a", "b"]);
    let bounds = Handoff::up_to(1, ms(50));
    let row = offer(0).to_be_handed_on(&bounds, Margin::DEFAULT, at(0));
    assert_eq!(gate.granted(token(1), row), Fate::Taken);
    assert_eq!(
        gate.next(at(0)),
        Next::Sleep(at(50)),
        "not for the turn's second"
    );
    assert_eq!(gate.look(seats[0], at(1)), Look::Yours(position(1), row));
    (gate, seats)
}

#[test]
fn an_offer_is_over_earlier_where_the_margin_is_wider() {
    let margin = Margin::percent(10).unwrap();
    for (now, is_over) in [(897, false), (898, true)] {
        let (mut gate, [a]) = asking(["a"]);
        let offer = offer(0).to_be_handed_on(&Handoff::up_to(0, ms(0)), margin, at(0));
        assert_eq!(gate.granted(token(1), offer), Fate::Taken);
        let found = gate.look(a, at(now));
        assert_eq!(found == Look::Stale(position(1)), is_over, "{now}");
    }
}

/// A grant that was on its way for 80 ms may be handed on for as long as any other; the tenth of the lease counts from it.
#[test]
fn how_long_a_lock_is_handed_on_counts_from_when_the_grant_is_known() {
    let bounds = Handoff::up_to(1, ms(10));
    for (known, until) in [(0, 10), (80, 90), (95, 100), (300, 100)] {
        let row = offer(0)
            .to_be_handed_on(&bounds, Margin::DEFAULT, at(known))
            .row;
        assert_eq!(row.until, at(until), "known at {known}");
    }
}

#[test]
fn the_next_is_asked_for_when_the_lock_can_no_longer_be_handed_on() {
    let (mut gate, [_, b]) = held_in_a_row();
    assert_eq!(gate.next(at(1)), Next::Sleep(at(50)));
    assert_eq!(gate.next(at(50)), Next::Ask);

    let (mut gate, _) = held_in_a_row();
    gate.end_row_unless(|who, _| *who == "b");
    assert_eq!(gate.next(at(1)), Next::Sleep(at(50)));
    gate.end_row_unless(|who, _| *who == "a");
    assert_eq!(gate.next(at(1)), Next::Ask, "b could not begin with it");
    assert!(!gate.can_hand_on(token(1), at(1), |_, _| true));

    let (mut gate, _) = held_in_a_row();
    assert!(gate.hand_on(token(1), at(2), |_, _| true));
    let Look::Yours(_, second) = gate.look(b, at(3)) else {
        panic!("it is offered");
    };
    assert_eq!((second.row.index, second.row.since), (1, Some(at(2))));
    gate.enter("c");
    assert_eq!(gate.next(at(3)), Next::Ask, "once only");
    assert!(!gate.can_hand_on(token(1), at(3), |_, _| true));
}

#[test]
fn a_gate_is_missed_while_its_lock_may_be_handed_on() {
    let (mut gate, [_, b]) = held_in_a_row();
    assert!(!gate.is_idle_at(at(50)), "somebody waits");
    gate.take_wheel();
    gate.leave(b);
    assert!(!gate.is_idle_at(at(50)), "somebody drives");
    assert_eq!(gate.next(at(1)), Next::Rest);
    assert!(!gate.is_idle_at(at(49)), "whoever comes may have it");
    assert!(gate.is_idle_at(at(50)), "whoever comes has to ask");
    gate.left(token(1), at(50));
    assert!(gate.is_idle());
}
