//! The value of one argument: its form, its unit, its range.

use super::check;

#[test]
fn an_argument_needs_its_value() {
    for (argument, write) in [
        ("key", "`key = \"item:<id>\"`"),
        ("ttl", "`ttl = \"10s\"`"),
        ("max_hold", "`max_hold = \"5m\"`"),
        ("max_renewals", "`max_renewals = 4`"),
        ("on_busy", "`on_busy = \"skip\"` or `on_busy = \"error\"`"),
        ("pool", "`pool = \"billing\"` or `pool = self.locks`"),
        ("map_err", "`map_err = |error| …`"),
    ] {
        let message = format!("`{argument}` needs a value: write {write}");
        let key = if argument == "key" {
            ""
        } else {
            "key = \"a\", renew, "
        };
        for after in ["", " =", " = ,"] {
            check(&format!("{key}{argument}{after}"), &[(argument, &message)]);
        }
    }
}

/// One argument with a value of the wrong form: the message, which repeats the written value if
/// possible.
#[track_caller]
fn check_value(argument: &str, value: &str, message: &str) {
    let before = match argument {
        "key" => "",
        "max_renewals" => "key = \"a\", renew, ",
        _ => "key = \"a\", ",
    };
    check(
        &format!("{before}{argument} = {value}"),
        &[(value, message)],
    );
}

#[test]
fn a_key_is_text() {
    for (argument, value, message) in [
        ("key", "7", "a key is text: write `key = \"7\"`"),
        ("key", "b\"item\"", "a key is text: write `key = \"item\"`"),
        ("key", "c\"item\"", "a key is text: write `key = \"item\"`"),
        ("key", "'i'", "a key is text: write `key = \"i\"`"),
        ("key", "b'i'", "a key is text: write `key = \"i\"`"),
        ("key", "true", "a key is text: write `key = \"true\"`"),
        ("key", "1.5", "a key is text: write `key = \"1.5\"`"),
    ] {
        check_value(argument, value, message);
    }
    check(
        "key = item:<id>",
        &[(
            "item",
            "a key template stands in quotes: write `key = \"item:<id>\"`",
        )],
    );
}

#[test]
fn durations_without_quotes() {
    for (argument, value, message) in [
        (
            "ttl",
            "10",
            "a duration has a unit and stands in quotes: write `ttl = \"10s\"`",
        ),
        (
            "ttl",
            "10s",
            "a duration stands in quotes: write `ttl = \"10s\"`",
        ),
        (
            "ttl",
            "1m30s",
            "a duration stands in quotes: write `ttl = \"1m30s\"`",
        ),
        ("ttl", "1.5", "write `ttl = \"10s\"`"),
        (
            "max_hold",
            "TTL",
            "`max_hold` is read when compiling: write `max_hold = \"5m\"`; a value that only the running program knows goes through `pool.lock(key).max_hold(TTL)`",
        ),
        (
            "ttl",
            "self.ttl",
            "`ttl` is read when compiling: write `ttl = \"10s\"`; a value that only the running program knows goes through `pool.lock(key).ttl(…)`",
        ),
        (
            "min_hold",
            "30",
            "a duration has a unit and stands in quotes: write `min_hold = \"30s\"`",
        ),
        (
            "wait",
            "W::X",
            "`wait` is read when compiling: write `wait = \"3s\"`, `wait = \"0s\"` or `wait = \"forever\"`; a value that only the running program knows goes through `pool.lock(key).wait(W::X)`",
        ),
        (
            "wait",
            "forever",
            "a word stands in quotes: write `wait = \"forever\"`",
        ),
        (
            "renew",
            "3.5",
            "write `renew`, `renew = \"3s\"` or `renew = false`",
        ),
        (
            "renew",
            "yes",
            "write `renew`, `renew = \"3s\"` or `renew = false`",
        ),
    ] {
        check_value(argument, value, message);
    }
    for switch in ["\"true\"", "\"false\""] {
        let message = "a switch stands without quotes: write `renew` or `renew = false`";
        check_value("renew", switch, message);
    }
}

#[test]
fn words_and_counts() {
    for (argument, value, message) in [
        (
            "on_lost",
            "cancel",
            "a word stands in quotes: write `on_lost = \"cancel\"`",
        ),
        (
            "on_busy",
            "skip",
            "a word stands in quotes: write `on_busy = \"skip\"`",
        ),
        (
            "on_busy",
            "true",
            "write `on_busy = \"skip\"` or `on_busy = \"error\"`",
        ),
        (
            "release",
            "later",
            "write `release = \"confirmed\"`, `release = \"background\"` or `release = \"strict\"`",
        ),
        (
            "max_renewals",
            "\"4\"",
            "a count stands without quotes: write `max_renewals = 4`",
        ),
        (
            "max_renewals",
            "7u8",
            "a count has no suffix: write `max_renewals = 7`",
        ),
        (
            "max_renewals",
            "N",
            "`max_renewals` is read when compiling: write `max_renewals = 4`; a value that only the running program knows goes through `pool.lock(key).max_renewals(N)`",
        ),
    ] {
        check_value(argument, value, message);
    }
}

#[test]
fn names_and_paths() {
    for (argument, value, message) in [
        (
            "guard",
            "\"held\"",
            "a name stands without quotes: write `guard = held`",
        ),
        ("guard", "_", "the guard needs a name: write `guard = lock`"),
        (
            "guard",
            "self",
            "the guard needs a name: write `guard = lock`",
        ),
        (
            "guard",
            "a::b",
            "the guard needs a name: write `guard = lock`",
        ),
        (
            "guard",
            "\"a b\"",
            "the guard needs a name: write `guard = lock`",
        ),
        (
            "guard",
            "fn",
            "expected an expression: write `guard = lock`",
        ),
        (
            "pool",
            "5",
            "write `pool = \"billing\"` or `pool = self.locks`",
        ),
        (
            "crate",
            "\"a::b\"",
            "a path stands without quotes: write `crate = a::b`",
        ),
        (
            "crate",
            "\"a b\"",
            "write `crate = path::to::dlock_runtime`",
        ),
        ("crate", "f(x)", "write `crate = path::to::dlock_runtime`"),
    ] {
        check_value(argument, value, message);
    }
}

#[test]
fn durations() {
    check(
        r#"key = "a", ttl = "10""#,
        &[(
            "\"10\"",
            "duration \"10\" needs a unit, ms, s, m, h or d: write \"10s\"",
        )],
    );
    check(
        r#"key = "a", ttl = "10x""#,
        &[(
            "\"10x\"",
            "duration \"10x\" has the unknown unit \"x\": use ms, s, m, h or d",
        )],
    );
    check(
        r#"key = "a", wait = "soon""#,
        &[(
            "\"soon\"",
            "duration \"soon\" needs a number before the unit, such as \"10s\"; or write \"forever\"",
        )],
    );
    check(
        r#"key = "a", ttl = "forever""#,
        &[(
            "\"forever\"",
            "a lease has an end: write `ttl = \"10s\", renew`, and it is renewed for as long as the body runs",
        )],
    );
    check(
        r#"key = "a", ttl = "9ms""#,
        &[(
            "\"9ms\"",
            "ttl 9ms is shorter than the minimum of 10ms: give the lease more time",
        )],
    );
    check(
        r#"key = "a", ttl = "0s""#,
        &[(
            "\"0s\"",
            "ttl 0s is shorter than the minimum of 10ms: give the lease more time",
        )],
    );
    check(
        r#"key = "a", ttl = "25h""#,
        &[(
            "\"25h\"",
            "ttl 1d1h is longer than the maximum of 24h: use a shorter ttl and `renew`",
        )],
    );
}

#[test]
fn renewal() {
    let half = "renewal interval 5s must be less than half of the ttl 10s, so that a failed renewal can be repeated: \
                shorten the interval or leave it out to renew every third of the ttl";
    check(
        r#"key = "a", ttl = "10s", renew = "5s""#,
        &[("\"5s\"", half)],
    );
    check(
        r#"key = "a", renew = "5s", ttl = "10s""#,
        &[("\"5s\"", half)],
    );
    check(
        r#"key = "a", renew = "0s""#,
        &[(
            "\"0s\"",
            "renewal interval 0s is shorter than the minimum of 1ms: leave it out to renew every third of the ttl",
        )],
    );
}

#[test]
fn words() {
    check(
        r#"key = "a", on_lost = "stop""#,
        &[(
            "\"stop\"",
            "unknown `on_lost` \"stop\": write \"cancel\" or \"finish\"",
        )],
    );
    check(
        r#"key = "a", on_busy = "ignore""#,
        &[(
            "\"ignore\"",
            "unknown `on_busy` \"ignore\": write \"error\" or \"skip\"",
        )],
    );
    check(
        r#"key = "a", release = "later""#,
        &[(
            "\"later\"",
            "unknown `release` \"later\": write \"confirmed\", \"background\" or \"strict\"",
        )],
    );
    check(
        r#"key = "a", guard = id"#,
        &[(
            "id",
            "the guard `id` would hide the argument of that name: write `guard = lock`",
        )],
    );
}
