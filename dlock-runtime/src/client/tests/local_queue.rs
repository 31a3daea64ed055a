//! The local queue, one path at a time: the waiters, the attempt, and what becomes of a token.

use super::{at, ms, terms};
use crate::client::local_queue::{Grant, LocalQueue, MessageOutcome, Remote, TakenTurn, WaiterId};
use crate::values::moment::Moment;
use crate::values::token::Token;

pub(super) type Queue = LocalQueue<&'static str>;

/// The validity of 1000 ms.
pub(super) const COUNTS: u64 = 1000 - 10 - 2;

pub(super) fn token(number: u64) -> Token {
    Token::of_test(number)
}

/// One second from then on.
pub(super) fn grant(since: u64) -> Grant {
    Grant::in_turn(at(since), ms(1000), since, since)
}

pub(super) fn vacant(not_before: u64) -> Remote {
    Remote::Vacant {
        not_before: at(not_before),
    }
}

fn queued(number: u64, poll: u64) -> Remote {
    Remote::Queued {
        token: token(number),
        poll: at(poll),
    }
}

/// These wait, and an acquire of token 1 is under way for them.
pub(super) fn acquiring<const N: usize>(names: [&'static str; N]) -> (Queue, [WaiterId; N]) {
    let mut queue = Queue::default();
    let waiter_ids = names.map(|name| queue.enter(name));
    queue.acquiring(token(1));
    (queue, waiter_ids)
}

/// As [`acquiring`], and token 1 was granted at 0.
pub(super) fn granted<const N: usize>(names: [&'static str; N]) -> (Queue, [WaiterId; N]) {
    let (mut queue, waiter_ids) = acquiring(names);
    assert_eq!(queue.granted(token(1), grant(0)), MessageOutcome::Taken);
    (queue, waiter_ids)
}

/// As [`granted`], and the only waiter took it.
pub(super) fn held() -> Queue {
    let (mut queue, [waiter_id]) = granted(["a"]);
    assert_eq!(
        queue.take_turn(waiter_id, at(0)),
        TakenTurn::Yours(token(1), grant(0))
    );
    queue
}

fn names(queue: &Queue) -> Vec<&'static str> {
    queue.waiters().copied().collect()
}

#[test]
fn the_queue_is_in_order_of_arrival() {
    let mut queue = Queue::default();
    assert!(!queue.has_waiters() && queue.first().is_none());
    let waiter_ids = ["a", "b", "c"].map(|name| queue.enter(name));
    assert!(waiter_ids.is_sorted() && queue.has_waiters());
    assert_eq!(
        (names(&queue), queue.first()),
        (vec!["a", "b", "c"], Some(&"a"))
    );
    assert_eq!(queue.waiter(waiter_ids[1]), Some(&mut "b"));
    queue.leave(waiter_ids[0]);
    queue.leave(waiter_ids[1]);
    let later = queue.enter("d");
    assert!(later > waiter_ids[2], "a waiter id is never used again");
    assert_eq!(names(&queue), ["c", "d"]);
    assert_eq!(queue.waiter(waiter_ids[0]), None);
}

#[test]
fn only_the_first_in_the_queue_finds_the_lock_and_only_once() {
    let (mut queue, [a, b]) = granted(["a", "b"]);
    assert_eq!(queue.take_turn(b, at(1)), TakenTurn::Wait);
    assert_eq!(
        queue.take_turn(a, at(2)),
        TakenTurn::Yours(token(1), grant(0))
    );
    assert_eq!((queue.remote(), names(&queue)), (&vacant(2), vec!["b"]));
    assert_eq!(
        queue.take_turn(a, at(3)),
        TakenTurn::Wait,
        "it has left the queue"
    );
    assert_eq!(queue.take_turn(b, at(3)), TakenTurn::Wait, "it is taken");
    assert_eq!(queue.leave(a), None, "there is nothing of its to clean up");
    assert_eq!(names(&queue), ["b"]);
}

#[test]
fn the_last_one_to_take_it_leaves_a_trace() {
    let mut queue = held();
    assert_eq!(queue.remote(), &Remote::Held(token(1), grant(0)));
    queue.left(token(2), at(4));
    assert_eq!(
        queue.remote(),
        &Remote::Held(token(1), grant(0)),
        "another one's end"
    );
    queue.left(token(1), at(5));
    assert_eq!(queue.remote(), &vacant(5));
}

#[test]
fn an_end_of_what_is_no_longer_held_changes_nothing() {
    let (mut queue, _) = granted(["a"]);
    queue.left(token(1), at(1));
    assert_eq!(queue.remote(), &Remote::Granted(token(1), grant(0)));
}

#[test]
fn a_grant_is_inherited_by_the_next_in_the_queue() {
    let (mut queue, [a, b, c]) = granted(["a", "b", "c"]);
    assert_eq!(queue.leave(b), None);
    assert_eq!(queue.leave(a), None, "somebody still wants it");
    assert_eq!(queue.take_turn(a, at(1)), TakenTurn::Wait);
    assert_eq!(
        queue.take_turn(c, at(1)),
        TakenTurn::Yours(token(1), grant(0))
    );
}

#[test]
fn the_last_waiter_inherits_what_was_acquired_for_those_before() {
    let (mut queue, [a]) = acquiring(["a"]);
    assert_eq!(queue.leave(a), None, "the acquire is on its way");
    let b = queue.enter("b");
    assert_eq!(queue.granted(token(1), grant(0)), MessageOutcome::Taken);
    assert_eq!(
        queue.take_turn(b, at(1)),
        TakenTurn::Yours(token(1), grant(0))
    );
}

#[test]
fn a_stale_grant_is_named_and_its_finder_stays_in_the_queue() {
    let (mut queue, [a, b]) = granted(["a", "b"]);
    assert_eq!(
        queue.take_turn(b, at(COUNTS)),
        TakenTurn::Wait,
        "not this one's to find"
    );
    assert_eq!(queue.take_turn(a, at(COUNTS)), TakenTurn::Stale(token(1)));
    assert_eq!(
        (queue.remote(), names(&queue)),
        (&vacant(COUNTS), vec!["a", "b"])
    );
    assert_eq!(
        queue.take_turn(a, at(COUNTS)),
        TakenTurn::Wait,
        "named once"
    );

    let (mut queue, [a]) = granted(["a"]);
    let yours = queue.take_turn(a, at(COUNTS - 1));
    assert_eq!(yours, TakenTurn::Yours(token(1), grant(0)), "just in time");
}

/// When no waiter is left, the attempt is given up in whatever state, and its token is returned
/// exactly once.
#[test]
fn a_place_that_nobody_waits_for_is_named_once() {
    type News = fn(&mut Queue) -> MessageOutcome;
    let news: [(&str, News); 2] = [
        ("queued", |queue| queue.queued(token(1), at(50))),
        ("offered", |queue| queue.granted(token(1), grant(0))),
    ];
    for (name, tell) in news {
        let (mut queue, [a, b]) = acquiring(["a", "b"]);
        assert_eq!(tell(&mut queue), MessageOutcome::Taken);
        assert_eq!(queue.leave(b), None, "{name}");
        assert_eq!(queue.leave(a), Some(token(1)), "{name}");
        assert_eq!(queue.leave(a), None, "{name}: twice");
        assert_eq!(queue.remote(), &vacant(0), "{name}");
        assert_eq!(
            tell(&mut queue),
            MessageOutcome::NotOurs,
            "{name}: nor by late news"
        );

        let (mut queue, [a]) = acquiring(["a"]);
        assert_eq!(queue.leave(a), None);
        assert_eq!(
            tell(&mut queue),
            MessageOutcome::Unwanted(token(1)),
            "{name}"
        );
        assert_eq!(queue.remote(), &vacant(0), "{name}");
        assert_eq!(
            tell(&mut queue),
            MessageOutcome::NotOurs,
            "{name}: nor by late news"
        );

        let (mut queue, _) = acquiring(["a", "b"]);
        assert_eq!(tell(&mut queue), MessageOutcome::Taken);
        let (fifo, unwanted) = queue.clear();
        assert_eq!(unwanted, Some(token(1)), "{name}");
        assert_eq!(
            fifo.into_iter().map(|(_, who)| who).collect::<Vec<_>>(),
            ["a", "b"]
        );
        assert_eq!((queue.has_waiters(), queue.clear().1), (false, None));
    }
}

#[test]
fn everybody_is_rejected_and_an_acquire_on_its_way_is_waited_for() {
    let (mut queue, _) = acquiring(["a"]);
    assert_eq!(queue.clear().1, None);
    assert_eq!(queue.remote(), &Remote::Acquiring(token(1)));
    let outcome = queue.granted(token(1), grant(0));
    assert_eq!(outcome, MessageOutcome::Unwanted(token(1)));

    let mut queue = held();
    assert_eq!(queue.clear().1, None, "a holder is not in line");
    assert_eq!(queue.remote(), &Remote::Held(token(1), grant(0)));
}

#[test]
fn a_push_may_be_faster_than_the_answer_that_it_is_queued() {
    let (mut queue, [a]) = acquiring(["a"]);
    assert_eq!(
        queue.granted(token(1), grant(0)),
        MessageOutcome::Taken,
        "the push"
    );
    assert_eq!(
        queue.queued(token(1), at(50)),
        MessageOutcome::NotOurs,
        "the answer"
    );
    assert!(!queue.ended(token(1), at(0)), "nor is it over");
    let slower = queue.granted(token(1), grant(7));
    assert_eq!(slower, MessageOutcome::NotOurs, "the first word counts");
    assert_eq!(
        queue.take_turn(a, at(1)),
        TakenTurn::Yours(token(1), grant(0))
    );
}

#[test]
fn a_place_moves_on_with_each_answer() {
    let (mut queue, _) = acquiring(["a"]);
    assert_eq!(queue.remote(), &Remote::Acquiring(token(1)));
    assert_eq!(queue.queued(token(1), at(50)), MessageOutcome::Taken);
    assert_eq!(queue.remote(), &queued(1, 50));
    assert_eq!(queue.queued(token(1), at(90)), MessageOutcome::Taken);
    assert_eq!(queue.remote(), &queued(1, 90));
    assert_eq!(queue.granted(token(1), grant(60)), MessageOutcome::Taken);
    assert_eq!(queue.remote(), &Remote::Granted(token(1), grant(60)));

    for was_queued in [false, true] {
        let (mut queue, _) = acquiring(["a"]);
        if was_queued {
            queue.queued(token(1), at(50));
        }
        assert!(queue.ended(token(1), at(70)));
        assert_eq!(queue.remote(), &vacant(70));
        assert!(!queue.ended(token(1), at(80)), "once");
        assert_eq!(queue.remote(), &vacant(70));
    }
}

/// Messages about a token that is not our attempt, or is no longer awaited, change nothing.
#[test]
fn news_of_other_tokens_are_not_ours() {
    let mut queued = acquiring(["a"]).0;
    queued.queued(token(1), at(50));
    let not_theirs = [
        (Queue::default(), token(1)),
        (acquiring(["a"]).0, token(2)),
        (queued, token(2)),
        (granted(["a"]).0, token(1)),
        (granted(["a"]).0, token(2)),
        (held(), token(1)),
    ];
    for (mut queue, token) in not_theirs {
        let before = queue.clone();
        assert_eq!(
            queue.queued(token, at(90)),
            MessageOutcome::NotOurs,
            "{before:?}"
        );
        assert_eq!(
            queue.granted(token, grant(9)),
            MessageOutcome::NotOurs,
            "{before:?}"
        );
        assert!(!queue.ended(token, at(90)), "{before:?}");
        assert_eq!(queue, before);
    }
}

#[test]
fn a_token_is_awaited_from_its_acquire_to_its_grant() {
    let (mut queue, _) = acquiring(["a"]);
    assert!(queue.awaits(token(1)) && !queue.awaits(token(2)));
    queue.queued(token(1), at(50));
    assert!(queue.awaits(token(1)));
    queue.granted(token(1), grant(0));
    assert!(!queue.awaits(token(1)), "it has been granted");
    assert!(!held().awaits(token(1)) && !Queue::default().awaits(token(1)));
}

#[test]
#[should_panic(expected = "one entry at a time")]
fn a_second_entry_is_never_queued() {
    let (mut queue, _) = acquiring(["a"]);
    queue.acquiring(token(2));
}

#[test]
fn a_queue_is_missed_while_anybody_or_anything_is_there() {
    let mut queue = Queue::default();
    assert!(queue.is_idle());
    let a = queue.enter("a");
    assert!(!queue.is_idle(), "somebody waits");
    assert!(queue.become_leader());
    queue.leave(a);
    assert!(!queue.is_idle(), "somebody drives");
    queue.next(Moment::from_nanos(0));
    assert!(queue.is_idle());
    assert!(!held().is_idle(), "held");
    assert!(held().is_idle_at(at(0)), "held, and not to be handed on");
    let (mut queue, [a]) = acquiring(["a"]);
    queue.leave(a);
    assert!(!queue.is_idle(), "an acquire is on its way");
}

/// What is handed on is as good as an own grant: nine tenths of the ttl are left, and the lease is as
/// long as the waiter's own would be, or as a claim of who waits in turn.
#[test]
fn a_grant_suits_who_would_get_no_better_one() {
    let rows = [
        // lease, of a turn in the queue, for so long, ttl, is handed on
        (10_000, false, 1_000, 10_000, true),
        (10_000, false, 1_001, 10_000, false),
        (9_999, false, 0, 10_000, false),
        (30_000, false, 1_000, 10_000, true),
        (3_000, true, 1_000, 10_000, true),
        (3_000, true, 1_001, 10_000, false),
        (2_999, true, 0, 10_000, false),
        (2_000, true, 200, 2_000, true),
        (2_000, true, 201, 2_000, false),
        (1_999, true, 0, 2_000, false),
    ];
    for (lease, in_turn, held, ttl, suits) in rows {
        let grant = if in_turn {
            Grant::in_turn(at(50), ms(lease), 1, 1)
        } else {
            Grant::at_once(at(50), ms(lease), 1, 1)
        };
        let row = format!("{lease} ms, in turn: {in_turn}, held for {held} ms, ttl {ttl} ms");
        let mut terms = terms(ttl, None);
        assert_eq!(grant.suits(&terms, at(50 + held)), suits, "{row}");
        terms.bounds.min_hold = Some(ms(1));
        assert!(!grant.suits(&terms, at(50 + held)), "{row}, with min_hold");
    }
}
