//! Pauses: their bounds, and that they are spread.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::client::retry::{Jitter, Retries, after_busy, after_failure};
use crate::rules::commands::{Busy, Left, NoQuorum};
use crate::values::moment::Moment;

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn a_waiter_looks_when_the_lease_ends_or_at_the_cap_and_a_tenth_later_at_most() {
    let mut jitter = Jitter::seeded(7);
    for (left, cap, from) in [
        (ms(0), ms(100), ms(20)),
        (ms(19), ms(100), ms(20)),
        (ms(19), ms(5), ms(5)),
        (ms(40), ms(100), ms(40)),
        (ms(100), ms(100), ms(100)),
        (ms(30_000), ms(100), ms(100)),
        (Duration::MAX, ms(100), ms(100)),
        (Duration::MAX, ms(3_600_000), ms(3_600_000)),
    ] {
        for _ in 0..200 {
            let pause = after_busy(left, cap, &mut jitter);
            assert!(pause > from, "after the end, not at it: {pause:?}");
            assert!(
                pause <= from + ms(1) + from / 10,
                "{left:?} {cap:?}: {pause:?}"
            );
        }
    }
}

#[test]
fn failures_double_the_pause_up_to_a_second() {
    let mut jitter = Jitter::seeded(7);
    for (failures, most) in [
        (0, 25),
        (1, 25),
        (2, 50),
        (3, 100),
        (4, 200),
        (5, 400),
        (6, 800),
        (7, 800),
        (u32::MAX, 800),
    ] {
        for _ in 0..200 {
            let pause = after_failure(failures, &mut jitter);
            assert!(
                pause >= ms(most) / 2 && pause <= ms(most).min(ms(1000)),
                "{failures}: {pause:?}"
            );
        }
    }
}

#[test]
fn waiters_do_not_march_in_step() {
    let pauses: BTreeSet<Duration> = (0..100)
        .map(|seed| after_busy(ms(1000), ms(100), &mut Jitter::seeded(seed)))
        .collect();
    assert!(pauses.len() > 95, "{}", pauses.len());
    let (least, most) = (pauses.first().unwrap(), pauses.last().unwrap());
    assert!(*most > *least + ms(8), "{least:?} to {most:?}");
}

#[test]
fn a_seed_repeats_itself() {
    let pauses = |seed| {
        let mut jitter = Jitter::seeded(seed);
        [1, 2, 3].map(|failures| after_failure(failures, &mut jitter))
    };
    assert_eq!(pauses(7), pauses(7));
    assert_ne!(pauses(7), pauses(8));
}

fn at(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

#[test]
fn a_success_ends_the_failures_in_a_row() {
    let mut retries = Retries::new(Jitter::seeded(7));
    for _ in 0..6 {
        retries.failed(at(0));
    }
    assert!(retries.failed(at(0)).length >= ms(400));
    retries.succeeded();
    assert!(retries.failed(at(0)).length <= ms(25));
}

#[test]
fn an_outage_is_mentioned_once_a_minute_and_counted_from_its_first_failure() {
    let mut retries = Retries::new(Jitter::seeded(7));
    for (now, mention) in [
        (1_000, None),
        (60_999, None),
        (61_000, Some(ms(60_000))),
        (120_999, None),
        (125_000, Some(ms(124_000))),
    ] {
        assert_eq!(retries.failed(at(now)).mention, mention, "at {now}");
    }
    retries.succeeded();
    assert_eq!(retries.failed(at(300_000)).mention, None, "another outage");
}

#[test]
fn what_came_late_is_sent_again_at_once_and_then_after_pauses() {
    let mut retries = Retries::new(Jitter::seeded(7));
    assert_eq!(retries.at_once(at(0)), None);
    assert!(retries.at_once(at(0)).is_some());
    retries.succeeded();
    assert_eq!(retries.at_once(at(0)), None);
    retries.succeeded();
    retries.failed(at(0));
    assert!(retries.at_once(at(0)).is_some(), "in an outage");
}

#[test]
fn a_key_without_a_time_to_live_is_waited_for_a_second_and_no_longer() {
    let mut retries = Retries::new(Jitter::seeded(7));
    assert_eq!(retries.endless(at(0), ms(100)), Some(ms(100)));
    assert_eq!(retries.endless(at(950), ms(100)), Some(ms(50)));
    assert_eq!(retries.endless(at(1000), ms(100)), None);
    assert_eq!(retries.endless(at(1001), ms(100)), Some(ms(100)), "anew");
    retries.succeeded();
    assert_eq!(
        retries.endless(at(2500), ms(5000)),
        Some(ms(1000)),
        "it had one"
    );
}

fn outvoted_by(holder: &str, is_held: bool, rank: u32) -> NoQuorum {
    NoQuorum {
        busy: Busy {
            time: 0,
            left: Left::Endless,
            value: holder.to_owned(),
        },
        is_held,
        is_open: false,
        rank,
        is_told: true,
        round_trip: ms(1),
    }
}

#[test]
fn a_lock_without_a_quorum_is_asked_for_again_soon_and_a_held_one_later() {
    let answer = |is_held, rank| outvoted_by("", is_held, rank);
    let mut retries = Retries::new(Jitter::seeded(7));
    for (splits, most) in [(1, 10), (2, 20), (3, 40), (7, 640), (8, 640), (99, 640)] {
        let mut retries = Retries::new(Jitter::seeded(splits));
        let mut pause = ms(0);
        for _ in 0..splits {
            pause = retries.no_quorum(&answer(false, 0), ms(500), ms(1000));
        }
        assert!(pause <= ms(most), "{pause:?} after {splits}");
    }
    let first = retries.no_quorum(&answer(true, 0), ms(500), ms(1000));
    assert!((ms(500)..ms(552)).contains(&first), "{first:?}");
    let tenth = retries.no_quorum(&answer(true, 10), ms(500), ms(1000));
    assert!((ms(525)..ms(577)).contains(&tenth), "{tenth:?}");
    let last = retries.no_quorum(&answer(true, u32::MAX), ms(5000), ms(1000));
    assert!(last <= ms(2101), "{last:?}");
}

/// Nine nodes tell one after the other, and each may be the first to. A forger is not believed for
/// long, and forgotten when the lock changes hands.
#[test]
fn hints_that_change_nothing_count_ten_times_and_then_ten_times_a_second() {
    let mut retries = Retries::new(Jitter::seeded(7));
    let mut told = |holder: &str, is_held, now: u64| {
        let next = retries.next_hint(&outvoted_by(holder, is_held, 0), at(now));
        at(now).until(next)
    };
    for _ in 0..10 {
        assert_eq!(told("a", true, 5), ms(0));
    }
    assert_eq!(told("a", true, 5), ms(100));
    assert_eq!(told("a", true, 105), ms(100));
    assert_eq!(told("a", true, 1105), ms(0), "its own polls cost nothing");
    for _ in 0..20 {
        told("a", true, 1105);
    }
    assert!(told("a", true, 1105) > ms(100));
    assert_eq!(told("b", true, 1105), ms(0), "it has changed hands");
    for _ in 0..20 {
        assert_eq!(told("b", false, 1105), ms(0), "the votes are split");
    }
    for (nth, holder) in ["a", "b"].repeat(20).into_iter().enumerate() {
        assert_eq!(told(holder, true, 1105), ms(0), "{nth}");
    }
}
