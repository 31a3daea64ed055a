//! The list of arguments: names that are unknown, missing, duplicate, conflicting, or in the wrong
//! notation.

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
        r#"key = "a", colour = "red""#,
        &[(
            "colour",
            "unknown argument `colour`, arguments are:\n\
             key, keys, ttl, wait, renew, max_hold, max_renewals, min_hold, read, write, permits, take, reentrant, owner, fair, on_busy, \
             on_lost, release, guard, pool, map_err, on_error, crate",
        )],
    );
}

/// Users know the words of other libraries.
#[test]
fn names_of_other_libraries() {
    for (theirs, ours, write) in [
        ("name", "key", "key = \"item:<id>\""),
        ("lockName", "key", "key = \"item:<id>\""),
        ("lease", "ttl", "ttl = \"10s\""),
        ("leaseTime", "ttl", "ttl = \"10s\""),
        ("lock_at_most_for", "ttl", "ttl = \"10s\""),
        ("expire", "ttl", "ttl = \"10s\""),
        ("lock_at_least_for", "min_hold", "min_hold = \"30s\""),
        (
            "auto_renewal",
            "renew",
            "renew`, `renew = \"3s\"` or `renew = false",
        ),
        (
            "client",
            "pool",
            "pool = \"billing\"` or `pool = self.locks",
        ),
        ("readLock", "read", "read"),
        ("shared", "read", "read"),
        ("write_lock", "write", "write"),
        ("semaphore", "permits", "permits = 1"),
        ("count", "permits", "permits = 1"),
        ("weight", "take", "take = 1"),
        ("recursive", "reentrant", "reentrant"),
        ("thread_id", "owner", "reentrant, owner = \"<workflow>\""),
        ("fifo", "fair", "fair"),
    ] {
        let key = if ours == "key" { "" } else { "key = \"a\", " };
        let message =
            format!("unknown argument `{theirs}`, which is `{ours}` here: write `{write}`");
        check(&format!("{key}{theirs} = 1"), &[(theirs, &message)]);
    }
    for (theirs, ours) in [
        ("TTL", "ttl"),
        ("maxHold", "max_hold"),
        ("OnBusy", "on_busy"),
    ] {
        let message = format!("unknown argument `{theirs}`, did you mean `{ours}`?");
        check(&format!("key = \"a\", {theirs} = 1"), &[(theirs, &message)]);
    }
    check(
        r#"key = "a", timeout = "10s""#,
        &[(
            "timeout",
            "unknown argument `timeout`: write `wait = \"3s\"` for how long to wait, `ttl = \"10s\"` for how long to hold",
        )],
    );
}

/// The proposal repeats the written value, if it fits there.
#[test]
fn values_under_another_name() {
    for (written, theirs, ours, write) in [
        ("semaphore = 2", "semaphore", "permits", "permits = 2"),
        ("permit = \"2\"", "permit", "permits", "permits = 2"),
        ("limit = SEATS", "limit", "permits", "permits = 5"),
        ("lease = \"20s\"", "lease", "ttl", "ttl = \"20s\""),
        ("lease = \"20\"", "lease", "ttl", "ttl = \"10s\""),
        ("heartbeat = \"2s\"", "heartbeat", "renew", "renew = \"2s\""),
        (
            "renewals = 7",
            "renewals",
            "max_renewals",
            "max_renewals = 7",
        ),
        (
            "session = \"s:<id>\"",
            "session",
            "owner",
            "reentrant, owner = \"s:<id>\"",
        ),
        ("thread = id", "thread", "owner", "reentrant, owner = id"),
    ] {
        let message =
            format!("unknown argument `{theirs}`, which is `{ours}` here: write `{write}`");
        check(&format!("key = \"a\", {written}"), &[(theirs, &message)]);
    }
    let message = "unknown argument `name`, which is `key` here: write `key = \"user:<id>\"`";
    check(r#"name = "user:<id>""#, &[("name", message)]);
    let message =
        "unknown argument `resources`, which is `keys` here: write `keys = [\"a\", \"b:<id>\"]`";
    check(r#"resources = ["a", "b:<id>"]"#, &[("resources", message)]);
    let long = "x".repeat(81);
    let message = "unknown argument `name`, which is `key` here: write `key = \"item:<id>\"`";
    check(&format!("name = \"{long}\""), &[("name", message)]);
}

/// A kind as the value of an argument, and values that are no kind.
#[test]
fn kinds_by_other_words() {
    let is = |kind| format!(": a kind is an argument itself, so write `{kind}`");
    let exclusive = ": a lock is exclusive unless it says another kind, so leave this out";
    let any = ": a lock is exclusive, or says `read`, `write`, `permits = 5` or `reentrant`";
    for (argument, value, message) in [
        ("kind", " = \"read\"", is("read")),
        ("mode", " = \"Shared\"", is("read")),
        ("type", " = \"read-lock\"", is("read")),
        ("lockMode", " = Mode::Write", is("write")),
        ("kind", " = \"semaphore\"", is("permits = 5")),
        ("lock_type", " = recursive", is("reentrant")),
        ("kind", " = \"fair\"", is("fair")),
        ("mode", " = \"mutex\"", exclusive.to_owned()),
        ("exclusive", "", exclusive.to_owned()),
        ("exclusive", " = true", exclusive.to_owned()),
        ("mutex", "", exclusive.to_owned()),
        ("kind", " = \"lease\"", any.to_owned()),
        ("kind", " = 5", any.to_owned()),
        ("kind", "", any.to_owned()),
    ] {
        let message = format!("unknown argument `{argument}`{message}");
        check(
            &format!("key = \"a\", {argument}{value}"),
            &[(argument, &message)],
        );
    }
    let upgrade = ", for a reader can't become the writer: write `write` from the start, or let the reader end before a writer begins";
    for argument in ["upgrade", "upgradable"] {
        let message = format!("unknown argument `{argument}`{upgrade}");
        check(
            &format!("key = \"a\", read, {argument}"),
            &[(argument, &message)],
        );
    }
}

#[test]
fn settings_of_the_pool() {
    for (argument, call) in [
        ("namespace", ".namespace(\"shop:\")"),
        ("lock_order", ".lock_order(LockOrder::Refuse)"),
        ("lockOrder", ".lock_order(LockOrder::Refuse)"),
    ] {
        let message = format!(
            "unknown argument `{argument}`, which is the pool's: write `Config::new(…){call}`, once in `main`"
        );
        check(
            &format!("key = \"a\", {argument} = \"x\""),
            &[(argument, &message)],
        );
    }
}

/// One mistake gives one error: an argument that was meant is not reported as missing.
#[test]
fn a_near_miss_is_not_missing_as_well() {
    check(
        r#"key = "a", rennew, max_hold = "5m""#,
        &[("rennew", "unknown argument `rennew`, did you mean `renew`?")],
    );
    check(
        r#"key = "a", renew = 3, max_renewals = 4"#,
        &[(
            "3",
            "a duration has a unit and stands in quotes: write `renew = \"3s\"`",
        )],
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
            (
                "\"1\"",
                "duration \"1\" needs a unit, ms, s, m, h or d: write \"1s\"",
            ),
        ],
    );
}

#[test]
fn an_argument_needs_its_name() {
    for (written, at) in [
        ("\"item:<id>\"", "\"item:<id>\""),
        ("r#\"item:<id>\"#", "r#\"item:<id>\"#"),
        ("\"a\".to_owned()", "\"a\""),
    ] {
        let message = format!("an argument needs its name: write `key = {at}`");
        check(written, &[(at, &message)]);
    }
    check(
        "format!(\"item:{id}\")",
        &[(
            "format",
            "an argument needs its name, and a key is a template: write `key = \"item:<id>\"`",
        )],
    );
    for written in [
        "lock_key!(\"item:<id>\")",
        "keys::item(id)",
        "id.to_string()",
    ] {
        let name = written.split(['!', ':', '.']).next().unwrap();
        let message = format!("an argument needs its name: write `key = {name}…`");
        check(written, &[(name, &message)]);
    }
    check(
        r#"key = "a", = 3"#,
        &[("=", "expected an argument such as `key = \"item:<id>\"`")],
    );
}

/// Arguments that other libraries have, and what replaces them.
#[test]
fn arguments_that_there_are_none_of() {
    for theirs in [
        "retry",
        "retries",
        "retry_count",
        "retry_delay",
        "retry_interval",
        "poll_interval",
    ] {
        let message = format!(
            "unknown argument `{theirs}`: nobody tries again at intervals, for a waiter is told when it is its turn; how long it waits is `wait = \"3s\"`"
        );
        check(
            &format!("key = \"a\", {theirs} = \"100ms\""),
            &[(theirs, &message)],
        );
    }
    for theirs in ["token", "fence", "fencing", "fencing_token"] {
        let message = format!(
            "unknown argument `{theirs}`: the token is the guard's, so write `guard = lock`, and `lock.fence()` in the body"
        );
        check(
            &format!("key = \"a\", {theirs} = true"),
            &[(theirs, &message)],
        );
        check(&format!("key = \"a\", {theirs}"), &[(theirs, &message)]);
    }
    for theirs in ["prefix", "key_prefix"] {
        let message = format!(
            "unknown argument `{theirs}`, which is the pool's: write `Config::new(…).namespace(\"shop:\")`, once in `main`"
        );
        check(
            &format!("key = \"a\", {theirs} = \"shop:\""),
            &[(theirs, &message)],
        );
    }
}

#[test]
fn names_have_no_quotes() {
    for name in ["ttl", "wait", "key"] {
        let message = format!("an argument's name stands without quotes: write `{name} = …`");
        let quoted = format!("{name:?}");
        let before = if name == "key" { "" } else { "key = \"a\", " };
        check(
            &format!("{before}{quoted} = \"10s\", fair"),
            &[(&quoted, &message)],
        );
    }
    check(
        r#"key = "a", pool = """#,
        &[(
            "\"\"",
            "a pool's name is not empty: write that of its `init_named`, or leave `pool` out for the one of `init`",
        )],
    );
}

#[test]
fn equals_signs_and_commas() {
    for (written, at) in [
        ("ttl(\"10s\")", "("),
        ("ttl: \"10s\"", ":"),
        ("ttl == \"10s\"", "="),
        ("ttl => \"10s\"", "="),
        ("ttl \"10s\"", "\"10s\""),
    ] {
        let all = format!("key = \"a\", {written}");
        check(&all, &[(at, "expected `=`: write `ttl = \"10s\"`")]);
    }
    let comma = "expected `,` between two arguments";
    check(r#"key = "a" ttl = "1s""#, &[("ttl", comma)]);
    check(r#"key = "a"; ttl = "1s""#, &[(";", comma)]);
    check(r#"key = "a" renew, ttl = "1s""#, &[("renew", comma)]);
    check(r#"key = "a" "b" "c", ttl = "1s""#, &[("\"b\"", comma)]);
    // The arguments after the mistake are read nevertheless.
    check(
        r#"key = "a" tll = "1s"; ttl = "0s""#,
        &[
            ("tll", comma),
            ("tll", "unknown argument `tll`, did you mean `ttl`?"),
            (";", comma),
            (
                "\"0s\"",
                "ttl 0s is shorter than the minimum of 10ms: give the lease more time",
            ),
        ],
    );
    // Errors about the rest of a reported value would be noise.
    check(
        r#"key = "a", ttl = 10 s, wait = "3s""#,
        &[(
            "10",
            "a duration has a unit and stands in quotes: write `ttl = \"10s\"`",
        )],
    );
}

#[test]
fn duplicates() {
    check(
        r#"key = "a", key = "b""#,
        &[("key", "duplicate argument `key`: remove one")],
    );
    check(
        r#"key = "a", renew, renew = false"#,
        &[("renew", "duplicate argument `renew`: remove one")],
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
    let message = "`map_err` needs a function that returns `Result`, and this one returns `()`: write `on_error = |error| …` instead";
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
