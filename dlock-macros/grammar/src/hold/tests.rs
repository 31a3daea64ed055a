//! The bounds of a hold: which are refused, and with which words.
use super::{Hold, HoldError, PERIOD_MAX, PERIOD_MIN};
use crate::bounds::{TTL_MAX, TTL_MIN};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A lease of 10 s that is renewed, without bounds.
const RENEWED: Hold = Hold {
    ttl: Some(Duration::from_secs(10)),
    renewed: true,
    max_hold: None,
    max_renewals: None,
    min_hold: None,
    once_per: None,
};

/// The same without the watchdog.
const ONCE: Hold = Hold {
    renewed: false,
    ..RENEWED
};

/// The wrong arguments, each with its message.
#[track_caller]
fn check(hold: Hold, expected: &[(&str, &str)]) {
    let found = hold.check();
    let found: Vec<_> = found
        .iter()
        .map(|error| (error.argument(), error.to_string()))
        .collect();
    let found: Vec<_> = found
        .iter()
        .map(|(argument, text)| (*argument, text.as_str()))
        .collect();
    assert_eq!(found, expected, "{hold:?}");
}

#[test]
fn max_hold() {
    let hold = |max_hold| Hold {
        max_hold: Some(max_hold),
        ..RENEWED
    };
    check(hold(10 * S), &[]);
    check(hold(Duration::MAX), &[]);
    check(
        hold(9_999 * MS),
        &[(
            "max_hold",
            "max_hold 9s999ms is shorter than a ttl of 10s: raise it, or shorten the ttl",
        )],
    );
    let unknown = |max_hold| Hold {
        ttl: None,
        ..hold(max_hold)
    };
    check(unknown(TTL_MIN), &[]);
    check(
        unknown(9 * MS),
        &[(
            "max_hold",
            "max_hold 9ms is shorter than a ttl of 10ms: raise it, or shorten the ttl",
        )],
    );
}

#[test]
fn max_renewals() {
    let hold = |max_renewals| Hold {
        max_renewals: Some(max_renewals),
        ..RENEWED
    };
    check(hold(1), &[]);
    check(hold(u32::MAX), &[]);
    check(
        hold(0),
        &[(
            "max_renewals",
            "max_renewals 0 would never renew: give at least 1, or leave `renew` out",
        )],
    );
}

#[test]
fn the_bounds_of_a_watchdog_need_one() {
    check(
        Hold {
            max_hold: Some(20 * S),
            max_renewals: Some(0),
            ..ONCE
        },
        &[
            (
                "max_hold",
                "max_hold ends renewals, and this lock is not renewed: add `renew`, or let the ttl be the bound",
            ),
            (
                "max_renewals",
                "max_renewals counts renewals, and this lock is not renewed: add `renew`, or leave max_renewals out",
            ),
        ],
    );
}

#[test]
fn min_hold() {
    let hold = |min_hold| Hold {
        min_hold: Some(min_hold),
        ..ONCE
    };
    check(hold(TTL_MIN), &[]);
    check(hold(10 * S), &[]);
    check(
        hold(9 * MS),
        &[(
            "min_hold",
            "min_hold 9ms is shorter than the minimum of 10ms: raise it, or leave it out to free the key when the body ends",
        )],
    );
    check(
        hold(10 * S + MS),
        &[(
            "min_hold",
            "min_hold 10s1ms is longer than the ttl 10s, at which the lock ends: raise the ttl or add `renew`",
        )],
    );
    let renewed = |min_hold| Hold {
        min_hold: Some(min_hold),
        ..RENEWED
    };
    check(renewed(TTL_MAX), &[]);
    check(
        renewed(TTL_MAX + MS),
        &[(
            "min_hold",
            "min_hold 24h1ms is longer than the maximum of 24h: shorten it, or put the date into the key",
        )],
    );
    let unknown = |min_hold| Hold {
        ttl: None,
        ..hold(min_hold)
    };
    check(unknown(TTL_MAX), &[]);
}

#[test]
fn min_and_max() {
    let hold = |min_hold| Hold {
        min_hold: Some(min_hold),
        max_hold: Some(60 * S),
        ..RENEWED
    };
    check(hold(60 * S), &[]);
    check(
        hold(61 * S),
        &[(
            "min_hold",
            "min_hold 1m1s is longer than the max_hold 1m, at which the lock is given up: shorten min_hold or raise max_hold",
        )],
    );
}

#[test]
fn once_per() {
    let hold = |period| Hold {
        once_per: Some(period),
        ..ONCE
    };
    check(hold(PERIOD_MIN), &[]);
    check(hold(PERIOD_MAX), &[]);
    check(
        hold(999 * MS),
        &[(
            "once_per",
            "once_per 999ms is shorter than the minimum of 1s: raise it, or use `min_hold` to keep the key for so long",
        )],
    );
    check(
        hold(PERIOD_MAX + S),
        &[(
            "once_per",
            "once_per 366d1s is longer than the maximum of 366d: shorten it, or record the run in a database",
        )],
    );
}

#[test]
fn everything_at_once() {
    let all = Hold {
        max_hold: Some(S),
        max_renewals: Some(0),
        min_hold: Some(2 * S),
        once_per: Some(MS),
        ..RENEWED
    };
    let found: Vec<_> = all.check().iter().map(HoldError::argument).collect();
    assert_eq!(found, ["max_hold", "max_renewals", "min_hold", "once_per"]);
}
