//! Good and bad histories, and the text form of an interval.

use super::{Interval, check_exclusive, now_ns};

fn hold(key: &str, fence: u64, start_ns: u64, end_ns: u64) -> Interval {
    let who = format!("holder of {fence}");
    Interval {
        key: key.to_owned(),
        fence,
        start_ns,
        end_ns,
        who,
    }
}

/// `expected`: a part of the violation, or `None` for a good history.
fn check(history: &[Interval], expected: Option<&str>) {
    let mut backwards = history.to_vec();
    backwards.reverse();
    for order in [history, &backwards] {
        match (check_exclusive(order), expected) {
            (Ok(()), None) => (),
            (Err(violation), Some(part)) if violation.contains(part) => (),
            (outcome, _) => panic!("{outcome:?}, expected {expected:?}, for {order:#?}"),
        }
    }
}

#[test]
fn good_histories_pass() {
    check(&[], None);
    check(&[hold("a", 1, 0, 10)], None);
    check(&[hold("a", 1, 0, 10), hold("a", 2, 10, 20)], None);
    check(&[hold("a", 1, 0, 10), hold("a", 9, 11, 11)], None);
}

#[test]
fn keys_do_not_exclude_each_other() {
    check(&[hold("a", 7, 0, 10), hold("b", 7, 5, 6)], None);
}

#[test]
fn an_overlap_of_a_nanosecond_is_caught() {
    let history = [hold("a", 1, 0, 10), hold("a", 2, 9, 20)];
    check(&history, Some("two holders at once"));
}

#[test]
fn a_hold_inside_another_is_caught() {
    let history = [hold("a", 1, 0, 100), hold("a", 2, 40, 50)];
    check(&history, Some("two holders at once"));
}

#[test]
fn an_overlap_with_a_hold_further_back_is_caught() {
    let history = [
        hold("a", 1, 0, 100),
        hold("a", 2, 10, 20),
        hold("a", 3, 50, 60),
    ];
    check(&history, Some("two holders at once"));
}

#[test]
fn the_same_fence_twice_is_caught() {
    let history = [hold("a", 5, 0, 10), hold("a", 5, 10, 20)];
    check(&history, Some("did not grow"));
}

#[test]
fn a_fence_that_goes_back_is_caught() {
    let history = [
        hold("a", 1, 0, 10),
        hold("a", 3, 10, 20),
        hold("a", 2, 20, 30),
    ];
    check(&history, Some("did not grow"));
}

#[test]
fn an_end_before_the_start_is_caught() {
    check(&[hold("a", 1, 10, 9)], Some("ends before it starts"));
}

#[test]
fn a_line_reads_back() {
    for key in ["orders:{42}", "with space", "tab\tand\nline\\n\r", ""] {
        let mut interval = hold(key, u64::MAX, 1, 2);
        interval.who = format!("pid 7 of {key}");
        let line = interval.to_string();
        assert!(!line.contains('\n'), "{line:?}");
        assert_eq!(Interval::parse(&line), Some(interval.clone()));
        assert_eq!(Interval::parse(&format!("{line}\r\n")), Some(interval));
    }
}

#[test]
fn other_lines_are_not_intervals() {
    for line in [
        "",
        "ready",
        "interval",
        "interval\ta\t1\t2",
        "interval\ta\t-1\t2\t3\tw",
        "interval\ta\t1\t2\t3\tw\tx",
        "interval\ta\\x\t1\t2\t3\tw",
    ] {
        assert_eq!(Interval::parse(line), None, "{line:?}");
    }
}

#[test]
fn the_clock_goes_forward() {
    let before = now_ns();
    assert!(before > 0);
    assert!(now_ns() >= before);
}
