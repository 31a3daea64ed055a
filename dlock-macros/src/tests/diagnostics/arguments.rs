use super::{ITEM, check, check_on};

#[test]
fn unknown_arguments() {
    check(
        r#"kye = "a""#,
        &[("kye", "unknown argument `kye`, did you mean `key`?")],
    );
    check(
        r#"key = "a", tll = "1s""#,
        &[("tll", "unknown argument `tll`, did you mean `ttl`?")],
    );
    check(
        r#"key = "a", max_renewal = 4"#,
        &[(
            "max_renewal",
            "unknown argument `max_renewal`, did you mean `max_renewals`?",
        )],
    );
    check(
        r#"key = "a", on_eror = f(a, b)"#,
        &[(
            "on_eror",
            "unknown argument `on_eror`, did you mean `on_error`?",
        )],
    );
    check(
        r#"key = "a", timeout = "1s""#,
        &[(
            "timeout",
            "unknown argument `timeout`, arguments are: key, ttl, wait, renew, max_hold, max_renewals, min_hold, on_busy, on_lost, release, \
             guard, pool, map_err, on_error, crate",
        )],
    );
}

#[test]
fn later_arguments() {
    for name in "reentrant read write fair permits owner".split(' ') {
        check(
            &format!("key = \"a\", {name}"),
            &[(name, &format!("`{name}` is not supported yet"))],
        );
        check(
            &format!("key = \"a\", {name} = [1, 2]"),
            &[(name, &format!("`{name}` is not supported yet"))],
        );
    }
    check(
        r#"keys = ["a", "b"]"#,
        &[("keys", "`keys` is not supported yet")],
    );
}

/// One mistake gives one error: what was meant is not reported as missing.
#[test]
fn a_near_miss_is_not_missing_as_well() {
    check(
        r#"key = "a", rennew, max_hold = "5m""#,
        &[("rennew", "unknown argument `rennew`, did you mean `renew`?")],
    );
    check(
        r#"key = "a", renew = 3, max_renewals = 4"#,
        &[("3", "write `renew`, `renew = \"3s\"` or `renew = false`")],
    );
    check_on(
        "async fn f() {}",
        r#"key = "a", on_busy = "skip", on_error"#,
        &[(
            "on_error",
            "`on_error` needs a value: write `on_error = |error| …`",
        )],
    );
}

#[test]
fn missing_key() {
    let message = "missing `key`: say what is locked, such as `key = \"item:<id>\"`";
    check("", &[("#[…]", message)]);
    check(
        r#"tll = "1s""#,
        &[
            ("tll", "unknown argument `tll`, did you mean `ttl`?"),
            ("#[…]", message),
        ],
    );
    check_on(
        &format!("#[distributed_lock] #[a::distributed_lock(ttl = \"1\")] {ITEM}"),
        r#"key = "a""#,
        &[
            ("distributed_lock", message),
            ("a::distributed_lock", message),
            ("\"1\"", "duration \"1\" needs a unit: ms, s, m, h or d"),
        ],
    );
}

#[test]
fn shapes() {
    check(
        r#""item:<id>""#,
        &[(
            "\"item:<id>\"",
            "an argument needs its name: write `key = \"item:<id>\"`",
        )],
    );
    check(
        "key",
        &[("key", "`key` needs a value: write `key = \"item:<id>\"`")],
    );
    check(
        "key =",
        &[("key", "`key` needs a value: write `key = \"item:<id>\"`")],
    );
    check(
        r#"key = "a", ttl"#,
        &[("ttl", "`ttl` needs a value: write `ttl = \"10s\"`")],
    );
    check(r#"key = "a", ttl = 10"#, &[("10", "write `ttl = \"10s\"`")]);
    check(
        r#"key = "a", ttl("10s")"#,
        &[("(", "expected `=`: write `ttl = \"10s\"`")],
    );
    check(
        r#"key = "a", wait = W::X"#,
        &[(
            "W::X",
            "write `wait = \"3s\"`, `wait = \"0s\"` or `wait = \"forever\"`",
        )],
    );
    check(
        r#"key = "a", renew = 3"#,
        &[("3", "write `renew`, `renew = \"3s\"` or `renew = false`")],
    );
    check(
        r#"key = "a", on_lost = cancel"#,
        &[(
            "cancel",
            "write `on_lost = \"cancel\"` or `on_lost = \"finish\"`",
        )],
    );
    check(
        r#"key = "a", guard = "lock""#,
        &[("\"lock\"", "write `guard = lock`")],
    );
    check(
        r#"key = "a", guard = self"#,
        &[("self", "write `guard = lock`")],
    );
    check(
        r#"key = "a", guard = a::b"#,
        &[("a::b", "write `guard = lock`")],
    );
    check(
        r#"key = "a", crate = "x""#,
        &[("\"x\"", "write `crate = path::to::dlock_runtime`")],
    );
    check(
        r#"key = "a" ttl = "1s""#,
        &[("ttl", "expected `,` between two arguments")],
    );
    check(
        r#"key = "a", = 3"#,
        &[("=", "expected an argument such as `key = \"item:<id>\"`")],
    );
}

#[test]
fn shapes_of_bounds_and_words() {
    for (argument, value, write) in [
        ("max_hold", "5", "`max_hold = \"5m\"`"),
        ("max_renewals", "\"4\"", "`max_renewals = 4`"),
        ("max_renewals", "4u8", "`max_renewals = 4`"),
        ("max_renewals", "N", "`max_renewals = 4`"),
        ("min_hold", "30", "`min_hold = \"30s\"`"),
        (
            "on_busy",
            "skip",
            "`on_busy = \"skip\"` or `on_busy = \"error\"`",
        ),
        (
            "release",
            "true",
            "`release = \"confirmed\"` or `release = \"background\"`",
        ),
    ] {
        check(
            &format!("key = \"a\", renew, {argument} = {value}"),
            &[(value, &format!("write {write}"))],
        );
        check(
            &format!("key = \"a\", renew, {argument}"),
            &[(
                argument,
                &format!("`{argument}` needs a value: write {write}"),
            )],
        );
    }
}

#[test]
fn duplicates() {
    check(
        r#"key = "a", key = "b""#,
        &[("key", "duplicate argument `key`: write it once")],
    );
    check(
        r#"key = "a", renew, renew = false"#,
        &[("renew", "duplicate argument `renew`: write it once")],
    );
}

#[test]
fn durations() {
    check(
        r#"key = "a", ttl = "10""#,
        &[("\"10\"", "duration \"10\" needs a unit: ms, s, m, h or d")],
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
            "unknown `release` \"later\": write \"confirmed\" or \"background\"",
        )],
    );
    check(
        r#"key = "a", guard = id"#,
        &[(
            "id",
            "the guard `id` would hide the argument of that name: choose another",
        )],
    );
}

#[test]
fn error_handlers() {
    check(
        r#"key = "a", map_err = f, on_error = g"#,
        &[(
            "on_error",
            "`on_error` makes the whole return value, so it cannot stand beside `map_err`: remove one",
        )],
    );
    let message = "`map_err` needs a function that returns `Result`, and this one returns `()`: write `on_error = |error| …`";
    check_on(
        "async fn f() {}",
        r#"key = "a", map_err = f"#,
        &[("map_err", message)],
    );
    check_on(
        "async fn f() -> () {}",
        r#"key = "a", map_err = f"#,
        &[("map_err", message)],
    );
    check_on(
        "async fn f() -> Option<u8> { None }",
        r#"key = "a", map_err = f"#,
        &[("map_err", &message.replace("()", "Option"))],
    );
}
