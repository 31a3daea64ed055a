//! Parsing turns, evaluating a run, and finding turns that overlap.

use super::{Outcome, Turn};

const MS: u64 = 1_000_000;

fn turn(task: usize, asked: u64, begin: u64, end: u64, fence: u64) -> Turn {
    Turn {
        task,
        asked: asked * MS,
        begin: begin * MS,
        end: end * MS,
        fence,
    }
}

#[test]
fn a_line_is_read_back() {
    let turn = turn(3, 1, 2, 3, 9);
    assert_eq!(Turn::parse(&turn.line()), Some(turn));
    for line in ["done", "turn 1 2 3 4", "turn a 2 3 4 5"] {
        assert_eq!(Turn::parse(line), None, "{line}");
    }
}

#[test]
fn what_turns_come_to() {
    let turns = vec![
        turn(2, 12, 13, 14, 4), // no task waited for the end of the turn before
        turn(0, 0, 0, 4, 1),
        turn(1, 1, 6, 8, 2),    // waited 5 ms, 2 of them after the lock was free
        turn(1, 8, 9, 10, 3),   // the same task again
        turn(0, 10, 21, 22, 5), // after the measured span
    ];
    let outcome = Outcome::of(turns, 4, &(0..20 * MS)).unwrap();
    assert_eq!((outcome.all, outcome.acquisitions), (5, 4));
    assert_eq!(outcome.handoffs, 2);
    assert_eq!(outcome.passes, [2000.0]);
    assert_eq!(outcome.waits, [0.0, 1.0, 1.0, 5.0]);
    assert_eq!(outcome.shares, [1.0, 2.0, 1.0, 0.0]);
    assert!((outcome.fairness().unwrap() - 16.0 / 24.0).abs() < 1e-9);
}

#[test]
fn turns_before_the_span_are_not_counted() {
    let turns = vec![
        turn(0, 0, 1, 2, 1),
        turn(1, 0, 3, 4, 2),
        turn(0, 2, 5, 6, 3),
        turn(1, 4, 9, 10, 4),
    ];
    let outcome = Outcome::of(turns, 2, &(4 * MS..9 * MS)).unwrap();
    assert_eq!(
        (outcome.all, outcome.acquisitions, outcome.handoffs),
        (4, 1, 1)
    );
    assert_eq!(outcome.shares, [1.0, 0.0]);
}

#[test]
fn two_at_once_are_found_wherever_they_are() {
    let apart = vec![
        turn(0, 0, 0, 4, 0),
        turn(1, 0, 4, 6, 0),
        turn(2, 0, 6, 7, 0),
    ];
    assert!(Outcome::of(apart.clone(), 3, &(0..9 * MS)).is_ok());
    for at in 0..3 {
        let mut turns = apart.clone();
        turns.push(turn(3, 0, turns[at].begin / MS, turns[at].end / MS, 0));
        let told = Outcome::of(turns, 4, &(0..9 * MS)).unwrap_err();
        assert!(told.contains("two held the lock at once"), "{told}");
    }
    // Exclusion is also checked after the measured span.
    let late = vec![turn(0, 0, 10, 14, 0), turn(1, 0, 13, 15, 0)];
    assert!(Outcome::of(late, 2, &(0..9 * MS)).is_err());
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    for (first, second, ok) in [(7, 8, true), (7, 7, false), (7, 3, false), (0, 0, true)] {
        let turns = vec![turn(0, 0, 0, 1, first), turn(1, 0, 2, 3, second)];
        assert_eq!(
            Outcome::of(turns, 2, &(0..9 * MS)).is_ok(),
            ok,
            "{first} {second}"
        );
    }
}

#[test]
fn no_turns_are_no_error() {
    let outcome = Outcome::of(Vec::new(), 2, &(0..9)).unwrap();
    assert_eq!(outcome.fairness(), None);
    assert_eq!(outcome.acquisitions, 0);
}
