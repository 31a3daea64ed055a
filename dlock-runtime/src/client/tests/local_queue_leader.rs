//! The leader of a local queue: whether there is one, what it has to do, and when.

use super::local_queue::{COUNTS, Queue, acquiring, grant, granted, held, token, vacant};
use super::{at, ms};
use crate::client::local_queue::{Grant, LeaderStep, MessageOutcome, Remote, TakenTurn, WaiterId};
use crate::values::handoff::Handoff;
use crate::values::moment::Moment;
use crate::values::ttl::Margin;

/// Token 1 is in the queue, to be polled at 50.
fn queued() -> Queue {
    let (mut queue, _) = acquiring(["a"]);
    assert_eq!(queue.queued(token(1), at(50)), MessageOutcome::Taken);
    queue
}

#[test]
fn there_is_one_leader_while_somebody_waits() {
    let mut queue = Queue::default();
    assert!(!queue.become_leader(), "nobody waits");
    let a = queue.enter("a");
    queue.enter("b");
    assert!(queue.become_leader() && !queue.become_leader(), "one");
    queue.leave(a);
    assert!(
        !queue.become_leader(),
        "the waiter may leave, the leader stays"
    );
    queue.leader_gone();
    assert!(queue.become_leader(), "the next one");
}

#[test]
fn a_leader_is_dismissed_when_nobody_waits_and_not_before() {
    let mut queue = Queue::default();
    let a = queue.enter("a");
    assert!(queue.become_leader());
    assert_eq!(queue.next(at(0)), LeaderStep::Acquire);
    queue.leave(a);
    let b = queue.enter("b");
    assert!(!queue.become_leader(), "it was not dismissed meanwhile");
    queue.leave(b);
    assert_eq!(queue.next(at(0)), LeaderStep::Rest);
    assert!(!queue.become_leader(), "still nobody waits");
    queue.enter("c");
    assert!(queue.become_leader(), "and a new one is needed");
}

/// In every state: with a waiter, the leader has something to do or something to wait for.
#[test]
fn what_a_leader_has_to_do() {
    let held = || {
        let mut queue = held();
        queue.enter("b");
        queue
    };
    let gone = || {
        let (mut queue, _) = acquiring(["a"]);
        queue.ended(token(1), at(70));
        queue
    };
    let (acquire, sleep) = (LeaderStep::Acquire, |until| LeaderStep::Sleep(at(until)));
    let poll = LeaderStep::Poll(token(1));
    let asked = LeaderStep::Sleep(Moment::NEVER); // the answer wakes it
    for (name, mut queue, now, expected) in [
        ("gone", gone(), 69, sleep(70)),
        ("gone", gone(), 70, acquire.clone()),
        ("asking", acquiring(["a"]).0, 5000, asked),
        ("queued", queued(), 49, sleep(50)),
        ("queued", queued(), 50, poll.clone()),
        ("queued", queued(), 5000, poll),
        ("offered", granted(["a"]).0, COUNTS - 1, sleep(COUNTS)),
        ("held", held(), 0, acquire),
    ] {
        let before = *queue.remote();
        assert_eq!(queue.next(at(now)), expected, "{name} at {now}");
        assert_eq!(queue.remote(), &before, "{name}: only looked at");
    }
}

#[test]
fn a_grant_that_no_waiter_took_is_given_up_once_and_polled_for_again() {
    let (mut queue, [a]) = granted(["a"]);
    assert_eq!(queue.next(at(COUNTS)), LeaderStep::GiveUp(token(1)));
    assert_eq!(queue.remote(), &vacant(COUNTS));
    assert_eq!(queue.next(at(COUNTS)), LeaderStep::Acquire);
    assert_eq!(queue.leave(a), None, "it has been named");
}

#[test]
fn the_next_waiter_acquires_while_the_one_before_holds() {
    let mut queue = held();
    let b = queue.enter("b");
    assert!(queue.become_leader());
    assert_eq!(queue.next(at(1)), LeaderStep::Acquire);
    queue.acquiring(token(2));
    queue.left(token(1), at(2));
    assert_eq!(queue.remote(), &Remote::Acquiring(token(2)), "left alone");
    queue.leave(b);
    assert_eq!(queue.next(at(3)), LeaderStep::Rest);
}

#[test]
fn a_pause_holds_back_the_next_acquire_and_nothing_else() {
    let mut queue = Queue::default();
    queue.enter("a");
    queue.pause(at(90));
    assert_eq!(queue.next(at(89)), LeaderStep::Sleep(at(90)));
    queue.pause(at(60));
    assert_eq!(
        queue.next(at(60)),
        LeaderStep::Acquire,
        "the last word counts"
    );
    for mut queue in [acquiring(["a"]).0, queued(), granted(["a"]).0] {
        let before = queue.clone();
        queue.pause(at(90));
        assert_eq!(queue, before);
    }
}

/// For example without a connection to send the next acquire: the server gets no command either
/// way.
#[test]
fn a_pause_counts_while_another_of_this_process_holds_the_lock() {
    let mut queue = held();
    queue.enter("b");
    assert_eq!(queue.next(at(0)), LeaderStep::Acquire);
    queue.pause(at(90));
    assert_eq!(queue.next(at(89)), LeaderStep::Sleep(at(90)));
    queue.left(token(1), at(10));
    assert_eq!(
        queue.next(at(89)),
        LeaderStep::Sleep(at(90)),
        "still no connection"
    );
    queue.poll_now(at(20));
    assert_eq!(queue.next(at(20)), LeaderStep::Acquire);
}

#[test]
fn who_hurries_acquires_at_once_and_never_later() {
    let mut queue = queued();
    queue.poll_now(at(60));
    assert_eq!(
        queue.next(at(50)),
        LeaderStep::Poll(token(1)),
        "never later"
    );
    queue.poll_now(at(20));
    assert_eq!(queue.next(at(20)), LeaderStep::Poll(token(1)));

    let mut queue = Queue::default();
    queue.enter("a");
    queue.pause(at(90));
    queue.poll_now(at(95));
    assert_eq!(queue.next(at(89)), LeaderStep::Sleep(at(90)), "never later");
    queue.poll_now(at(20));
    assert_eq!(queue.next(at(20)), LeaderStep::Acquire);

    for mut queue in [granted(["a"]).0, held()] {
        let before = queue.clone();
        queue.poll_now(at(20));
        assert_eq!(queue, before, "nothing to ask");
    }
}

/// A leader that ends with its runtime leaves the attempt to the next one, as it is.
#[test]
fn a_new_leader_takes_up_the_place_of_the_old_one() {
    let mut queue = queued();
    assert!(queue.become_leader());
    queue.leader_gone();
    assert_eq!(
        queue.granted(token(1), grant(0)),
        MessageOutcome::Taken,
        "a push"
    );
    assert!(queue.become_leader());
    assert_eq!(queue.next(at(1)), LeaderStep::Sleep(at(COUNTS)));
}

#[test]
fn what_is_missed_while_the_acquire_is_on_its_way_is_polled_for_at_once() {
    let (mut queue, _) = acquiring(["a"]);
    queue.poll_now(at(5));
    assert_eq!(queue.queued(token(1), at(1000)), MessageOutcome::Taken);
    assert_eq!(queue.next(at(6)), LeaderStep::Poll(token(1)));
    assert_eq!(queue.queued(token(1), at(1000)), MessageOutcome::Taken);
    assert_eq!(queue.next(at(7)), LeaderStep::Sleep(at(1000)), "once");
}

/// Any client that may publish can send a hint each millisecond.
#[test]
fn hints_cost_ten_polls_a_second_however_many_there_are() {
    let (mut queue, _) = acquiring(["a"]);
    assert_eq!(queue.queued(token(1), at(1000)), MessageOutcome::Taken);
    let mut polls = Vec::new();
    for now in 0..1000 {
        queue.hint(at(now));
        if queue.next(at(now)) == LeaderStep::Poll(token(1)) {
            polls.push(now);
            assert_eq!(
                queue.queued(token(1), at(now + 1000)),
                MessageOutcome::Taken
            );
        }
    }
    assert_eq!(polls, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900]);
}

/// Nodes tell one after the other; when they told falsely, `next_freed` is later.
#[test]
fn a_nodes_hint_counts_at_once_unless_those_before_were_false() {
    let mut queue = Queue::default();
    queue.enter("a");
    queue.pause(at(90));
    assert!(queue.freed(at(20)));
    assert_eq!(queue.next(at(20)), LeaderStep::Acquire);
    assert!(!queue.freed(at(20)), "nothing to do for the second one");

    let outvoted_after = |told: &[u64], next_freed| {
        let (mut queue, _) = acquiring(["a"]);
        for told in told {
            queue.freed(at(*told));
        }
        assert!(queue.ended(token(1), at(50)));
        queue.pause_unless_told(at(1000), at(next_freed));
        queue
    };
    assert_eq!(
        outvoted_after(&[], 0).next(at(50)),
        LeaderStep::Sleep(at(1000))
    );
    assert_eq!(
        outvoted_after(&[40, 45], 0).next(at(50)),
        LeaderStep::Acquire
    );
    let mut queue = outvoted_after(&[40, 45], 100);
    assert_eq!(queue.next(at(50)), LeaderStep::Sleep(at(100)));
    assert!(!queue.freed(at(60)), "no earlier");
    assert_eq!(queue.next(at(60)), LeaderStep::Sleep(at(100)));

    let mut queue = outvoted_after(&[], 100);
    assert!(queue.freed(at(60)));
    assert_eq!(queue.next(at(60)), LeaderStep::Sleep(at(100)));
    queue.poll_now(at(60)); // not a hint
    assert_eq!(queue.next(at(60)), LeaderStep::Acquire);
}

/// A poll costs the server a hundred times what a hint does.
#[test]
fn only_the_first_hint_of_a_place_is_a_poll_of_its_own() {
    let mut queue = queued();
    let mut alone = Vec::new();
    for now in 0..500 {
        queue.hint(at(now));
        if now == 250 {
            queue.poll_now(at(now)); // not a hint: this comes from the server
        }
        if queue.next(at(now)) == LeaderStep::Poll(token(1)) {
            if queue.take_early_flush() {
                alone.push(now);
            }
            assert_eq!(
                queue.queued(token(1), at(now + 1000)),
                MessageOutcome::Taken
            );
        }
    }
    assert_eq!(alone, [0, 250]);
}

/// In a fleet with different secrets every grant comes as a hint: ten hints a second per key would
/// allow only ten locks a second.
#[test]
fn each_place_may_be_hinted_at_at_once() {
    let mut queue = queued();
    assert!(queue.hint(at(10)));
    assert_eq!(queue.next(at(10)), LeaderStep::Poll(token(1)));
    assert!(queue.ended(token(1), at(10)));
    assert_eq!(queue.next(at(11)), LeaderStep::Acquire);
    queue.acquiring(token(2));
    assert_eq!(queue.queued(token(2), at(1011)), MessageOutcome::Taken);
    assert!(queue.hint(at(12)));
    assert_eq!(queue.next(at(12)), LeaderStep::Poll(token(2)), "its first");
    assert_eq!(queue.queued(token(2), at(1012)), MessageOutcome::Taken);
    assert!(queue.hint(at(13)));
    assert_eq!(queue.next(at(13)), LeaderStep::Sleep(at(112)));
}

/// The poll under way may have been executed before the grant that is hinted at.
#[test]
fn a_hint_during_a_command_is_polled_for_afterwards() {
    let mut queue = queued();
    assert_eq!(queue.next(at(50)), LeaderStep::Poll(token(1)));
    assert!(queue.hint(at(51)));
    assert_eq!(queue.queued(token(1), at(1050)), MessageOutcome::Taken);
    assert_eq!(queue.next(at(52)), LeaderStep::Poll(token(1)));
    assert_eq!(queue.queued(token(1), at(1050)), MessageOutcome::Taken);
    assert_eq!(queue.next(at(53)), LeaderStep::Sleep(at(1050)), "once");

    let (mut queue, _) = acquiring(["a"]);
    assert!(queue.hint(at(5)));
    assert!(!queue.hint(at(6)), "it is asked anyway");
    assert_eq!(queue.queued(token(1), at(1000)), MessageOutcome::Taken);
    assert_eq!(queue.next(at(7)), LeaderStep::Poll(token(1)));
}

#[test]
fn a_hint_never_puts_a_poll_off_and_says_nothing_elsewhere() {
    let mut queue = queued();
    assert!(queue.hint(at(10)));
    assert_eq!(queue.queued(token(1), at(50)), MessageOutcome::Taken);
    assert!(
        !queue.hint(at(20)),
        "the poll at 50 is sooner than the next hint that counts"
    );
    assert_eq!(queue.next(at(50)), LeaderStep::Poll(token(1)));
    for mut queue in [granted(["a"]).0, held(), Queue::default()] {
        let before = queue.clone();
        assert!(!queue.hint(at(20)));
        assert_eq!(queue, before);
    }
}

/// Three wait, and the lock is granted at 0 for a minute.
fn granted_for_long() -> (super::local_queue::Queue, [WaiterId; 3]) {
    let (mut queue, waiter_ids) = acquiring(["a", "b", "c"]);
    let mut long = grant(0);
    long.lease = ms(60_000);
    assert_eq!(queue.granted(token(1), long), MessageOutcome::Taken);
    (queue, waiter_ids)
}

#[test]
fn a_waiter_that_does_not_take_its_turn_is_passed_over_and_keeps_its_id() {
    let (mut queue, [a, b, c]) = granted_for_long();
    assert_eq!((queue.called(), queue.first()), (Some(&"a"), Some(&"a")));
    assert_eq!(queue.next(at(10)), LeaderStep::Sleep(at(1010)));
    assert_eq!(queue.next(at(1009)), LeaderStep::Sleep(at(1010)));
    assert_eq!(queue.next(at(1010)), LeaderStep::PassOn);
    assert_eq!((queue.called(), queue.first()), (Some(&"b"), Some(&"b")));
    assert_eq!(queue.take_turn(c, at(1011)), TakenTurn::Wait);
    assert_eq!(
        queue.take_turn(a, at(1011)),
        TakenTurn::Wait,
        "its turn is over"
    );
    assert!(matches!(queue.take_turn(b, at(1012)), TakenTurn::Yours(..)));

    assert!(queue.mark_responsive(a), "it was taken for unresponsive");
    assert!(!queue.mark_responsive(a) && !queue.mark_responsive(c));
    assert_eq!(queue.first(), Some(&"a"), "and it is first again");
}

#[test]
fn a_turn_passes_on_when_its_waiter_leaves_and_skips_the_unresponsive() {
    let (mut queue, [a, b, c]) = granted_for_long();
    assert_eq!(queue.next(at(0)), LeaderStep::Sleep(at(1000)));
    assert_eq!(queue.next(at(1000)), LeaderStep::PassOn); // a is unresponsive
    assert_eq!(queue.leave(b), None);
    assert_eq!(queue.called(), Some(&"c"));
    assert_eq!(queue.leave(a), None, "not its turn");
    assert_eq!(queue.called(), Some(&"c"));
    assert!(matches!(queue.take_turn(c, at(1500)), TakenTurn::Yours(..)));
}

#[test]
fn without_a_responsive_waiter_the_lock_is_given_up_and_not_acquired() {
    let (mut queue, [a]) = acquiring(["a"]);
    let mut long = grant(0);
    long.lease = ms(60_000);
    queue.granted(token(1), long);
    assert_eq!(queue.next(at(0)), LeaderStep::Sleep(at(1000)));
    assert_eq!(queue.next(at(1000)), LeaderStep::GiveUp(token(1)));
    assert_eq!(queue.next(at(9000)), LeaderStep::Sleep(Moment::NEVER));

    // What was acquired before that is unwanted as well.
    queue.enter("b");
    assert_eq!(queue.next(at(9000)), LeaderStep::Acquire);
    queue.acquiring(token(2));
    let b = a + 1;
    queue.leave(b);
    assert_eq!(
        queue.granted(token(2), long),
        MessageOutcome::Unwanted(token(2))
    );

    assert!(queue.mark_responsive(a));
    assert_eq!(
        queue.next(at(9001)),
        LeaderStep::Acquire,
        "it is heard of again"
    );
}

#[test]
fn a_leader_epoch_that_is_seized_leaves_an_acquire_to_be_cleaned_up() {
    let (mut queue, _) = acquiring(["a"]);
    assert!(queue.become_leader());
    assert_eq!(queue.take_over_lead(), Some(token(1)));
    assert!(!queue.become_leader(), "it has a leader");
    assert_eq!(queue.next(at(0)), LeaderStep::Acquire);
    assert!(
        !queue.ended(token(1), at(0)),
        "the old answer means nothing"
    );

    let mut queue = queued();
    assert_eq!(queue.take_over_lead(), None, "a place goes on");
    assert_eq!(queue.next(at(50)), LeaderStep::Poll(token(1)));
}

/// Granted at 0 for 1 s, to be handed on once within 50 ms; taken at 1, and one more waits.
fn held_in_a_chain() -> (Queue, [WaiterId; 2]) {
    let (mut queue, waiter_ids) = acquiring(["a", "b"]);
    let bounds = Handoff::up_to(1, ms(50));
    let row = grant(0).with_handoff_limit(&bounds, Margin::DEFAULT, at(0));
    assert_eq!(queue.granted(token(1), row), MessageOutcome::Taken);
    assert_eq!(
        queue.next(at(0)),
        LeaderStep::Sleep(at(50)),
        "not for the turn's second"
    );
    assert_eq!(
        queue.take_turn(waiter_ids[0], at(1)),
        TakenTurn::Yours(token(1), row)
    );
    (queue, waiter_ids)
}

#[test]
fn a_grant_is_over_earlier_where_the_margin_is_wider() {
    let margin = Margin::percent(10).unwrap();
    for (now, is_over) in [(897, false), (898, true)] {
        let (mut queue, [a]) = acquiring(["a"]);
        let grant = grant(0).with_handoff_limit(&Handoff::up_to(0, ms(0)), margin, at(0));
        assert_eq!(queue.granted(token(1), grant), MessageOutcome::Taken);
        let found = queue.take_turn(a, at(now));
        assert_eq!(found == TakenTurn::Stale(token(1)), is_over, "{now}");
    }
}

/// A grant that was on its way for 80 ms may be handed on for as long as any other; only the tenth
/// of the lease counts from the grant.
#[test]
fn how_long_a_lock_is_handed_on_counts_from_when_the_grant_is_known() {
    let bounds = Handoff::up_to(1, ms(10));
    for (known, until) in [(0, 10), (80, 90), (95, 100), (300, 100)] {
        let row = grant(0)
            .with_handoff_limit(&bounds, Margin::DEFAULT, at(known))
            .chain;
        assert_eq!(row.until, at(until), "known at {known}");
    }
}

#[test]
fn the_next_is_acquired_when_the_lock_can_no_longer_be_handed_on() {
    let (mut queue, [_, b]) = held_in_a_chain();
    assert_eq!(queue.next(at(1)), LeaderStep::Sleep(at(50)));
    assert_eq!(queue.next(at(50)), LeaderStep::Acquire);

    let (mut queue, _) = held_in_a_chain();
    queue.end_chain_unless(|who, _| *who == "b");
    assert_eq!(queue.next(at(1)), LeaderStep::Sleep(at(50)));
    queue.end_chain_unless(|who, _| *who == "a");
    assert_eq!(
        queue.next(at(1)),
        LeaderStep::Acquire,
        "b could not begin with it"
    );
    assert!(!queue.can_hand_on(token(1), at(1), |_, _| true));

    let (mut queue, _) = held_in_a_chain();
    assert!(queue.hand_on(token(1), at(2), |_, _| true));
    let TakenTurn::Yours(_, second) = queue.take_turn(b, at(3)) else {
        panic!("it is offered");
    };
    assert_eq!((second.chain.index, second.chain.since), (1, Some(at(2))));
    queue.enter("c");
    assert_eq!(queue.next(at(3)), LeaderStep::Acquire, "once only");
    assert!(!queue.can_hand_on(token(1), at(3), |_, _| true));
}

/// Whatever its holder says: only the lock that is held, within the bounds of its grant, and to a
/// waiter that can use it.
#[test]
fn a_lock_is_handed_on_within_the_bounds_of_its_grant() {
    const WHOLE: u64 = 5000;
    let last = COUNTS - 1;
    for (most, within, number, now, fits, expected) in [
        (1, 50, 1, 49, true, true),
        (1, 50, 1, 50, true, false), // its time is over
        (1, WHOLE, 1, last, true, true),
        (1, WHOLE, 1, COUNTS, true, false), // its lease is over
        (0, 50, 1, 2, true, false),
        (1, 50, 2, 2, true, false), // another one's end
        (1, 50, 1, 2, false, false),
    ] {
        let bounds = Handoff {
            most,
            within: ms(within),
            part: 1,
        };
        let row = grant(0).with_handoff_limit(&bounds, Margin::DEFAULT, at(0));
        let mut queue = Queue::default();
        let a = queue.enter("a");
        queue.acquiring(token(1));
        assert_eq!(queue.granted(token(1), row), MessageOutcome::Taken);
        assert_eq!(queue.take_turn(a, at(1)), TakenTurn::Yours(token(1), row));
        let b = queue.enter("b");
        let before = queue.clone();
        let fits = |who: &&str, _: &Grant| fits && *who == "b";
        assert_eq!(queue.can_hand_on(token(number), at(now), fits), expected);
        assert_eq!(
            queue.hand_on(token(number), at(now), fits),
            expected,
            "at {now}"
        );
        assert!(expected || queue == before, "at {now}: nothing changes");
        let taken = queue.take_turn(b, at(now));
        assert_eq!(taken != TakenTurn::Wait, expected, "at {now}");
    }
}

#[test]
fn a_queue_is_missed_while_its_lock_may_be_handed_on() {
    let (mut queue, [_, b]) = held_in_a_chain();
    assert!(!queue.is_idle_at(at(50)), "somebody waits");
    queue.become_leader();
    queue.leave(b);
    assert!(!queue.is_idle_at(at(50)), "somebody drives");
    assert_eq!(queue.next(at(1)), LeaderStep::Rest);
    assert!(!queue.is_idle_at(at(49)), "whoever comes may have it");
    assert!(queue.is_idle_at(at(50)), "whoever comes has to ask");
    queue.left(token(1), at(50));
    assert!(queue.is_idle());
}
