//! The gate, one way through it at a time: the line, the place, and what becomes of a token.

use super::{at, ms};
use crate::policy::commands::Claim;
use crate::policy::gate::{Fate, Gate, Look, Offer, Place, Position, Seat};
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) type Line = Gate<&'static str>;

/// What of 1000 ms counts.
pub(super) const COUNTS: u64 = 1000 - 10 - 2;

pub(super) fn token(number: u64) -> Token {
    Token::of_test(number)
}

pub(super) fn position(number: u64) -> Position {
    Position {
        token: token(number),
        claim: Claim {
            key: "k".into(),
            value: format!("v{number}").into(),
            queues: false,
        },
    }
}

/// One second from then on.
pub(super) fn offer(since: u64) -> Offer {
    Offer::in_turn(at(since), ms(1000), since, since)
}

pub(super) fn vacant(not_before: u64) -> Place {
    Place::Vacant {
        not_before: at(not_before),
    }
}

fn queued(number: u64, poll: u64) -> Place {
    Place::Queued {
        position: position(number),
        poll: at(poll),
    }
}

/// These wait, and token 1 was asked for on their behalf.
pub(super) fn asking<const N: usize>(names: [&'static str; N]) -> (Line, [Seat; N]) {
    let mut gate = Line::default();
    let seats = names.map(|name| gate.enter(name));
    gate.asking(position(1));
    (gate, seats)
}

/// The same, and token 1 was granted at 0.
pub(super) fn offered<const N: usize>(names: [&'static str; N]) -> (Line, [Seat; N]) {
    let (mut gate, seats) = asking(names);
    assert_eq!(gate.granted(token(1), offer(0)), Fate::Taken);
    (gate, seats)
}

/// The same, and the first, who was alone, took it.
pub(super) fn held() -> Line {
    let (mut gate, [seat]) = offered(["a"]);
    assert_eq!(gate.look(seat, at(0)), Look::Yours(position(1), offer(0)));
    gate
}

fn names(gate: &Line) -> Vec<&'static str> {
    gate.waiters().copied().collect()
}

#[test]
fn the_line_is_in_order_of_arrival() {
    let mut gate = Line::default();
    assert!(!gate.is_waited_at() && gate.first().is_none());
    let seats = ["a", "b", "c"].map(|name| gate.enter(name));
    assert!(seats.is_sorted() && gate.is_waited_at());
    assert_eq!(
        (names(&gate), gate.first()),
        (vec!["a", "b", "c"], Some(&"a"))
    );
    assert_eq!(gate.waiter(seats[1]), Some(&mut "b"));
    gate.leave(seats[0]);
    gate.leave(seats[1]);
    let later = gate.enter("d");
    assert!(later > seats[2], "a seat is nobody's again");
    assert_eq!(names(&gate), ["c", "d"]);
    assert_eq!(gate.waiter(seats[0]), None);
}

#[test]
fn only_the_first_in_line_finds_the_lock_and_only_once() {
    let (mut gate, [a, b]) = offered(["a", "b"]);
    assert_eq!(gate.look(b, at(1)), Look::Wait);
    assert_eq!(gate.look(a, at(2)), Look::Yours(position(1), offer(0)));
    assert_eq!((gate.place(), names(&gate)), (&vacant(2), vec!["b"]));
    assert_eq!(gate.look(a, at(3)), Look::Wait, "it has left the line");
    assert_eq!(gate.look(b, at(3)), Look::Wait, "it is taken");
    assert_eq!(gate.leave(a), None, "there is nothing of its to clean up");
    assert_eq!(names(&gate), ["b"]);
}

#[test]
fn the_last_one_to_take_it_leaves_a_trace() {
    let mut gate = held();
    assert_eq!(gate.place(), &Place::Held(position(1), offer(0)));
    gate.left(token(2), at(4));
    assert_eq!(
        gate.place(),
        &Place::Held(position(1), offer(0)),
        "another one's end"
    );
    gate.left(token(1), at(5));
    assert_eq!(gate.place(), &vacant(5));
}

#[test]
fn an_end_of_what_is_no_longer_held_changes_nothing() {
    let (mut gate, _) = offered(["a"]);
    gate.left(token(1), at(1));
    assert_eq!(gate.place(), &Place::Offered(position(1), offer(0)));
}

#[test]
fn an_offer_is_inherited_by_the_next_in_line() {
    let (mut gate, [a, b, c]) = offered(["a", "b", "c"]);
    assert_eq!(gate.leave(b), None);
    assert_eq!(gate.leave(a), None, "somebody still wants it");
    assert_eq!(gate.look(a, at(1)), Look::Wait);
    assert_eq!(gate.look(c, at(1)), Look::Yours(position(1), offer(0)));
}

#[test]
fn whoever_comes_last_inherits_what_was_asked_for_those_before() {
    let (mut gate, [a]) = asking(["a"]);
    assert_eq!(gate.leave(a), None, "the acquire is on its way");
    let b = gate.enter("b");
    assert_eq!(gate.granted(token(1), offer(0)), Fate::Taken);
    assert_eq!(gate.look(b, at(1)), Look::Yours(position(1), offer(0)));
}

#[test]
fn a_stale_offer_is_named_and_its_finder_stays_in_line() {
    let (mut gate, [a, b]) = offered(["a", "b"]);
    assert_eq!(
        gate.look(b, at(COUNTS)),
        Look::Wait,
        "not this one's to find"
    );
    assert_eq!(gate.look(a, at(COUNTS)), Look::Stale(position(1)));
    assert_eq!(
        (gate.place(), names(&gate)),
        (&vacant(COUNTS), vec!["a", "b"])
    );
    assert_eq!(gate.look(a, at(COUNTS)), Look::Wait, "named once");

    let (mut gate, [a]) = offered(["a"]);
    let yours = gate.look(a, at(COUNTS - 1));
    assert_eq!(yours, Look::Yours(position(1), offer(0)), "just in time");
}

/// With nobody left, the place is given up, whatever it is by then, and its token is named exactly once.
#[test]
fn a_place_that_nobody_waits_for_is_named_once() {
    type News = fn(&mut Line) -> Fate;
    let news: [(&str, News); 2] = [
        ("queued", |gate| gate.queued(token(1), at(50))),
        ("offered", |gate| gate.granted(token(1), offer(0))),
    ];
    for (name, tell) in news {
        let (mut gate, [a, b]) = asking(["a", "b"]);
        assert_eq!(tell(&mut gate), Fate::Taken);
        assert_eq!(gate.leave(b), None, "{name}");
        assert_eq!(gate.leave(a), Some(position(1)), "{name}");
        assert_eq!(gate.leave(a), None, "{name}: twice");
        assert_eq!(gate.place(), &vacant(0), "{name}");
        assert_eq!(tell(&mut gate), Fate::NotOurs, "{name}: nor by late news");

        let (mut gate, [a]) = asking(["a"]);
        assert_eq!(gate.leave(a), None);
        assert_eq!(tell(&mut gate), Fate::Unwanted(position(1)), "{name}");
        assert_eq!(gate.place(), &vacant(0), "{name}");
        assert_eq!(tell(&mut gate), Fate::NotOurs, "{name}: nor by late news");

        let (mut gate, _) = asking(["a", "b"]);
        assert_eq!(tell(&mut gate), Fate::Taken);
        let (line, unwanted) = gate.clear();
        assert_eq!(unwanted, Some(position(1)), "{name}");
        assert_eq!(
            line.into_iter().map(|(_, who)| who).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!((gate.is_waited_at(), gate.clear().1), (false, None));
    }
}

#[test]
fn everybody_is_sent_away_and_an_acquire_on_its_way_is_waited_for() {
    let (mut gate, _) = asking(["a"]);
    assert_eq!(gate.clear().1, None);
    assert_eq!(gate.place(), &Place::Asking(position(1)));
    let fate = gate.granted(token(1), offer(0));
    assert_eq!(fate, Fate::Unwanted(position(1)));

    let mut gate = held();
    assert_eq!(gate.clear().1, None, "a holder is not in line");
    assert_eq!(gate.place(), &Place::Held(position(1), offer(0)));
}

#[test]
fn a_push_may_be_faster_than_the_answer_that_it_is_queued() {
    let (mut gate, [a]) = asking(["a"]);
    assert_eq!(gate.granted(token(1), offer(0)), Fate::Taken, "the push");
    assert_eq!(gate.queued(token(1), at(50)), Fate::NotOurs, "the answer");
    assert!(!gate.ended(token(1), at(0)), "nor is it over");
    let slower = gate.granted(token(1), offer(7));
    assert_eq!(slower, Fate::NotOurs, "the first word counts");
    assert_eq!(gate.look(a, at(1)), Look::Yours(position(1), offer(0)));
}

#[test]
fn a_place_moves_on_with_each_answer() {
    let (mut gate, _) = asking(["a"]);
    assert_eq!(gate.place(), &Place::Asking(position(1)));
    assert_eq!(gate.queued(token(1), at(50)), Fate::Taken);
    assert_eq!(gate.place(), &queued(1, 50));
    assert_eq!(gate.queued(token(1), at(90)), Fate::Taken);
    assert_eq!(gate.place(), &queued(1, 90));
    assert_eq!(gate.granted(token(1), offer(60)), Fate::Taken);
    assert_eq!(gate.place(), &Place::Offered(position(1), offer(60)));

    for was_queued in [false, true] {
        let (mut gate, _) = asking(["a"]);
        if was_queued {
            gate.queued(token(1), at(50));
        }
        assert!(gate.ended(token(1), at(70)));
        assert_eq!(gate.place(), &vacant(70));
        assert!(!gate.ended(token(1), at(80)), "once");
        assert_eq!(gate.place(), &vacant(70));
    }
}

/// Whatever is said of a token that is not the place, or is not waited for there any more: it changes nothing.
#[test]
fn news_of_other_tokens_are_not_ours() {
    let mut queued = asking(["a"]).0;
    queued.queued(token(1), at(50));
    let deaf = [
        (Line::default(), token(1)),
        (asking(["a"]).0, token(2)),
        (queued, token(2)),
        (offered(["a"]).0, token(1)),
        (offered(["a"]).0, token(2)),
        (held(), token(1)),
    ];
    for (mut gate, token) in deaf {
        let before = gate.clone();
        assert_eq!(gate.queued(token, at(90)), Fate::NotOurs, "{before:?}");
        assert_eq!(gate.granted(token, offer(9)), Fate::NotOurs, "{before:?}");
        assert!(!gate.ended(token, at(90)), "{before:?}");
        assert_eq!(gate, before);
    }
}

#[test]
fn a_push_is_for_whoever_awaits_its_value() {
    let (mut gate, _) = asking(["a"]);
    assert_eq!(gate.awaits("v1"), Some(token(1)));
    assert_eq!((gate.awaits("v2"), gate.awaits("")), (None, None));
    gate.queued(token(1), at(50));
    assert_eq!(gate.awaits("v1"), Some(token(1)));
    gate.granted(token(1), offer(0));
    assert_eq!(gate.awaits("v1"), None, "it has been granted");
    assert_eq!(
        (held().awaits("v1"), Line::default().awaits("v1")),
        (None, None)
    );
}

#[test]
#[should_panic(expected = "one place at a time")]
fn a_second_place_is_never_asked_for() {
    let (mut gate, _) = asking(["a"]);
    gate.asking(position(2));
}

#[test]
fn a_gate_is_missed_while_anybody_or_anything_is_there() {
    let mut gate = Line::default();
    assert!(gate.is_idle());
    let a = gate.enter("a");
    assert!(!gate.is_idle(), "somebody waits");
    assert!(gate.take_wheel());
    gate.leave(a);
    assert!(!gate.is_idle(), "somebody drives");
    gate.next(Moment::from_nanos(0));
    assert!(gate.is_idle());
    assert!(!held().is_idle(), "held");
    assert!(held().is_idle_at(at(0)), "held, and not to be handed on");
    let (mut gate, [a]) = asking(["a"]);
    gate.leave(a);
    assert!(!gate.is_idle(), "an acquire is on its way");
}
