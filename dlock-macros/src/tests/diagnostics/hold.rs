//! `max_hold`, `max_renewals`, `min_hold`: with each other, and with the lease.

use super::check;

#[test]
fn a_bound_needs_a_watchdog() {
    let max_hold = "max_hold bounds the watchdog, and this lock has none: add `renew`, or let the ttl be the bound";
    let max_renewals = "max_renewals bounds the watchdog, and this lock has none: add `renew`, or leave max_renewals out";
    for renew in ["", ", renew = false"] {
        check(
            &format!("key = \"a\", max_hold = \"5m\", max_renewals = 4{renew}"),
            &[("max_hold", max_hold), ("max_renewals", max_renewals)],
        );
    }
}

#[test]
fn max_hold() {
    let message = "max_hold 9s is shorter than a ttl of 10s: raise it, or shorten the ttl";
    check(
        r#"key = "a", max_hold = "9s", ttl = "10s", renew"#,
        &[("\"9s\"", message)],
    );
    check(
        r#"key = "a", max_hold = "9ms", renew = "3s""#,
        &[(
            "\"9ms\"",
            "max_hold 9ms is shorter than a ttl of 10ms: raise it, or shorten the ttl",
        )],
    );
    check(
        r#"key = "a", max_hold = "5", renew"#,
        &[(
            "\"5\"",
            "duration \"5\" needs a unit, ms, s, m, h or d: write \"5s\"",
        )],
    );
}

#[test]
fn max_renewals() {
    check(
        r#"key = "a", renew, max_renewals = 0"#,
        &[(
            "0",
            "max_renewals 0 would never renew: give at least 1, or leave `renew` out",
        )],
    );
    check(
        r#"key = "a", renew, max_renewals = 4294967296"#,
        &[(
            "4294967296",
            "4294967296 is more than a lock can be renewed: write at most 4294967295, or leave it out",
        )],
    );
    check(
        r#"key = "a", renew, max_renewals = -1"#,
        &[(
            "-1",
            "`max_renewals` is read when compiling: write `max_renewals = 4`; a value that only the running program knows goes through `pool.lock(key).max_renewals(…)`",
        )],
    );
}

#[test]
fn min_hold() {
    check(
        r#"key = "a", ttl = "10s", min_hold = "11s""#,
        &[(
            "\"11s\"",
            "min_hold 11s is longer than the ttl 10s, at which the lock ends: raise the ttl or add `renew`",
        )],
    );
    check(
        r#"key = "a", min_hold = "9ms""#,
        &[(
            "\"9ms\"",
            "min_hold 9ms is shorter than the minimum of 10ms: raise it, or leave it out to free the key when the body ends",
        )],
    );
    check(
        r#"key = "a", min_hold = "25h""#,
        &[(
            "\"25h\"",
            "min_hold 1d1h is longer than the maximum of 24h: shorten it, or put the date into the key",
        )],
    );
    check(
        r#"key = "a", renew, ttl = "10s", max_hold = "1m", min_hold = "61s""#,
        &[(
            "\"61s\"",
            "min_hold 1m1s is longer than the max_hold 1m, at which the lock is given up: shorten min_hold or raise max_hold",
        )],
    );
}

#[test]
fn all_at_once() {
    let all = r#"key = "a", ttl = "9ms", renew = "0s", max_hold = "1s", max_renewals = 0, min_hold = "2s", on_busy = "x", release = "y""#;
    let item = super::ITEM.parse().unwrap();
    let errors = crate::rules::model(all.parse().unwrap(), &item).err();
    assert_eq!(errors.into_iter().flatten().count(), 6);
}
