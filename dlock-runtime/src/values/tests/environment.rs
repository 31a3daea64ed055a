//! `DLOCK_*`: every variable, good and bad, and every mistake in one error.

use std::time::Duration;

use crate::values::config::{Config, Settings, SpanLevel};
use crate::values::error::LockError;
use crate::values::handoff::Handoff;
use crate::values::lock_order::LockOrder;
use crate::values::release::Release;
use crate::values::ttl::{Margin, Ttl};
use crate::values::wait::Wait;

fn from(variables: &[(&str, &str)]) -> Result<Config, LockError> {
    let owned = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())));
    Config::from_variables(owned)
}

fn settings(name: &str, value: &str) -> Settings {
    let config = from(&[("DLOCK_URL", "memory://"), (name, value)]);
    config
        .and_then(Config::check)
        .unwrap_or_else(|error| panic!("{name}={value}: {error}"))
}

fn refused(variables: &[(&str, &str)]) -> String {
    match from(variables).and_then(Config::check) {
        Err(LockError::Config { why, .. }) => why.to_string(),
        other => panic!("{variables:?}: {other:?}"),
    }
}

#[cfg(feature = "tls")]
#[test]
fn the_variables_of_tls_are_as_the_options_of_the_url() {
    for (variable, option) in [
        ("DLOCK_TLS_CA", "tls_ca"),
        ("DLOCK_TLS_SERVER_NAME", "tls_server_name"),
    ] {
        let another = format!("rediss://h?{option}=y");
        let why = refused(&[("DLOCK_URL", &another), (variable, "x")]);
        assert!(why.contains(&format!("{option}: the URL gives another one")));
        let the_same = format!("rediss://h?{option}=x");
        let config = from(&[("DLOCK_URL", &the_same), (variable, "x")]);
        config.and_then(Config::check).unwrap();
    }
    let url = ("DLOCK_URL", "rediss://h");
    let [certificate, key] = [("DLOCK_TLS_CERT", "c"), ("DLOCK_TLS_KEY", "k")];
    assert!(refused(&[url, certificate]).contains("no `tls_key` beside it"));
    assert!(refused(&[url, key]).contains("no `tls_cert` beside it"));
    let config = from(&[url, certificate, key]);
    config.and_then(Config::check).unwrap();
}

#[test]
fn every_variable_sets_its_setting() {
    let ms = Duration::from_millis;
    assert_eq!(settings("DLOCK_NAMESPACE", "shop:").namespace, "shop:");
    assert_eq!(
        settings("DLOCK_DEFAULT_TTL", "10s").default_ttl().get(),
        ms(10_000)
    );
    let most = settings("DLOCK_DEFAULT_MAX_HOLD", "15m").default_max_hold;
    assert_eq!(most.map(Ttl::get), Some(ms(900_000)));
    assert_eq!(
        settings("DLOCK_DEFAULT_WAIT", "500ms").default_wait,
        Wait::For(ms(500))
    );
    assert_eq!(
        settings("DLOCK_DEFAULT_WAIT", "0s").default_wait,
        Wait::Once
    );
    assert_eq!(
        settings("DLOCK_DEFAULT_WAIT", "forever").default_wait,
        Wait::Forever
    );
    for (value, release) in [
        ("confirmed", Release::Confirmed),
        ("background", Release::Background),
        ("strict", Release::Strict),
    ] {
        assert_eq!(settings("DLOCK_RELEASE", value).release, release);
    }
    for (value, level) in [
        ("info", SpanLevel::Info),
        ("debug", SpanLevel::Debug),
        ("trace", SpanLevel::Trace),
    ] {
        let observing = settings("DLOCK_SPAN_LEVEL", value).observing;
        assert_eq!(observing.span_level, level);
    }
    for (value, lock_order) in [
        ("off", LockOrder::Off),
        ("warn", LockOrder::Warn),
        ("refuse", LockOrder::Refuse),
    ] {
        assert_eq!(settings("DLOCK_LOCK_ORDER", value).lock_order, lock_order);
    }
    assert_eq!(settings("DLOCK_CONNECTIONS", "2").connections, 2);
    assert_eq!(
        settings("DLOCK_LOCAL_HANDOFF", "1023").local_handoff,
        Handoff::up_to(1023, ms(10))
    );
    assert_eq!(settings("DLOCK_LOCAL_HANDOFF", "0").local_handoff.most, 0);
    for percent in [1, 16, 20] {
        let set = settings("DLOCK_CLOCK_MARGIN", &percent.to_string());
        assert_eq!(Some(set.clock_margin), Margin::percent(percent));
    }
    assert_eq!(
        settings("DLOCK_CONNECT_TIMEOUT", "2s").connect_timeout,
        ms(2_000)
    );
    assert_eq!(
        settings("DLOCK_COMMAND_TIMEOUT", "250ms").command_timeout,
        ms(250)
    );
    for (written, millis) in [("0s", 0), ("20s", 20_000), ("5m", 300_000)] {
        let grace = settings("DLOCK_SHUTDOWN_GRACE", written).shutdown_grace;
        assert_eq!(grace, ms(millis));
    }
    assert_eq!(
        settings("DLOCK_HEALTH_CHECK_INTERVAL", "1m30s").health_check_interval,
        ms(90_000)
    );
    assert_eq!(
        settings("DLOCK_MAX_IN_FLIGHT", "1000").max_in_flight,
        Some(1000)
    );
    assert_eq!(
        settings("DLOCK_REPAIR_MISSING_TTL", "1m").repair_missing_ttl,
        Some(ms(60_000))
    );
    assert_eq!(
        settings("DLOCK_HOLDER_NAME", "web-3")
            .holder_name
            .as_deref(),
        Some("web-3")
    );
    let secret = settings("DLOCK_GRANT_SECRET", "sixteen bytes it is").grant_secret;
    assert_eq!(secret.unwrap().reveal(), "sixteen bytes it is");
    assert!(settings("DLOCK_LAZY", "true").lazy && settings("DLOCK_LAZY", "1").lazy);
    assert!(!settings("DLOCK_LAZY", "false").lazy && !settings("DLOCK_LAZY", "0").lazy);
}

/// A waiter that gets pushes needs to poll seldom, others often. A configured interval counts for
/// both.
#[test]
fn the_poll_interval_depends_on_whether_waiters_are_told() {
    let both = |settings: Settings| [true, false].map(|pushes| settings.poll_interval(pushes));
    let ms = Duration::from_millis;
    assert_eq!(both(settings("DLOCK_LAZY", "0")), [ms(1_000), ms(100)]);
    for (value, interval) in [("1ms", ms(1)), ("50ms", ms(50)), ("1s", ms(1_000))] {
        let written = settings("DLOCK_POLL_INTERVAL", value);
        assert_eq!(both(written), [interval; 2]);
    }
    for value in ["0s", "1s1ms"] {
        let said = refused(&[("DLOCK_URL", "memory://"), ("DLOCK_POLL_INTERVAL", value)]);
        assert!(
            said.contains("poll_interval: ")
                && said.contains(
                    "give 1 ms to 1 s (a waiter that is silent for 3.5 s loses its place"
                ),
            "{said}"
        );
    }
}

#[test]
fn without_a_word_a_release_is_confirmed() {
    assert_eq!(settings("DLOCK_LAZY", "0").release, Release::Confirmed);
}

/// Developers get a warning; production pays nothing.
#[test]
fn without_a_word_the_order_of_locks_is_looked_at_in_a_debug_build() {
    let built = if cfg!(debug_assertions) {
        LockOrder::Warn
    } else {
        LockOrder::Off
    };
    assert_eq!(settings("DLOCK_LAZY", "0").lock_order, built);
}

#[test]
fn a_bad_value_is_refused_by_its_name() {
    let long = "n".repeat(129);
    for (name, value) in [
        ("DLOCK_NAMESPACE", "a{b}"),
        ("DLOCK_NAMESPACE", "a\nb"),
        ("DLOCK_NAMESPACE", long.as_str()),
        ("DLOCK_DEFAULT_TTL", ""),
        ("DLOCK_DEFAULT_TTL", "10"),
        ("DLOCK_DEFAULT_TTL", "10 s"),
        ("DLOCK_DEFAULT_TTL", "-1s"),
        ("DLOCK_DEFAULT_TTL", "9ms"),
        ("DLOCK_DEFAULT_TTL", "25h"),
        ("DLOCK_DEFAULT_TTL", "forever"),
        ("DLOCK_DEFAULT_WAIT", "never"),
        ("DLOCK_DEFAULT_WAIT", "Forever"),
        ("DLOCK_RELEASE", "Background"),
        ("DLOCK_RELEASE", ""),
        ("DLOCK_CONNECTIONS", "0"),
        ("DLOCK_CONNECTIONS", "65"),
        ("DLOCK_CONNECTIONS", "two"),
        ("DLOCK_LOCAL_HANDOFF", "1024"),
        ("DLOCK_LOCAL_HANDOFF", "10ms"),
        ("DLOCK_CLOCK_MARGIN", "0"),
        ("DLOCK_CLOCK_MARGIN", "21"),
        ("DLOCK_CLOCK_MARGIN", "8%"),
        ("DLOCK_CONNECT_TIMEOUT", "0s"),
        ("DLOCK_COMMAND_TIMEOUT", "0ms"),
        ("DLOCK_COMMAND_TIMEOUT", "2h"),
        ("DLOCK_POLL_INTERVAL", "1.5s"),
        ("DLOCK_POLL_INTERVAL", "2s"),
        ("DLOCK_HEALTH_CHECK_INTERVAL", "2h"),
        ("DLOCK_SHUTDOWN_GRACE", "301s"),
        ("DLOCK_MAX_IN_FLIGHT", "0"),
        ("DLOCK_MAX_IN_FLIGHT", "-3"),
        ("DLOCK_REPAIR_MISSING_TTL", "1ms"),
        ("DLOCK_HOLDER_NAME", "a\u{1b}b"),
        ("DLOCK_HOLDER_NAME", &"x".repeat(300_000)),
        ("DLOCK_LAZY", "yes"),
        ("DLOCK_LOCK_ORDER", "true"),
        ("DLOCK_SPAN_LEVEL", "warn"),
    ] {
        let said = refused(&[("DLOCK_URL", "memory://"), (name, value)]);
        let setting = name.trim_start_matches("DLOCK_").to_lowercase();
        assert!(
            said.contains(name) || said.contains(&setting),
            "{name}={value}: {said}"
        );
        assert!(
            !said.contains(';') || !said.contains("DLOCK_URL"),
            "only that: {said}"
        );
    }
}

#[test]
fn a_missing_address_and_an_unknown_variable_are_refused() {
    assert!(refused(&[]).contains("DLOCK_URL is not set; give"));
    let said = refused(&[("DLOCK_URL", "memory://"), ("DLOCK_TTL", "10s")]);
    assert_eq!(
        said,
        "DLOCK_TTL is not a setting of dlock, did you mean DLOCK_DEFAULT_TTL?"
    );
    let said = refused(&[
        ("DLOCK_URL", "memory://"),
        ("DLOCK_COMAND_TIMEOUT", "1s"),
        ("DLOCK_DEFUALT_WAIT", "1s"),
    ]);
    assert_eq!(
        said,
        "DLOCK_COMAND_TIMEOUT is not a setting of dlock, did you mean DLOCK_COMMAND_TIMEOUT?; \
         DLOCK_DEFUALT_WAIT is not a setting of dlock, did you mean DLOCK_DEFAULT_WAIT?"
    );
    let said = refused(&[
        ("DLOCK_URL", "memory://"),
        ("DLOCK_A", "1"),
        ("DLOCK_B", "1"),
    ]);
    assert_eq!(said.matches("DLOCK_HOLDER_NAME").count(), 1, "{said}");
}

#[test]
fn the_address_may_be_that_of_another_variable() {
    let address = |variables: &[(&str, &str)]| from(variables).map(|it| format!("{it:?}"));
    let there = ("REDIS_URL", "redis://:canary@db:7000/2");
    let named = address(&[("DLOCK_URL", "env:REDIS_URL"), there]).unwrap();
    assert!(named.contains("db:7000/2"), "{named}");
    for (url, other, said) in [
        (
            "env:REDIS_URL",
            "redis",
            "address is env:REDIS_URL, and REDIS_URL is not set",
        ),
        ("env:REDIS", "", "address is env:REDIS, and REDIS is empty"),
        ("env:REDIS", "'redis://h'", "REDIS: stands in quotes"),
        (
            "env:",
            "redis://h",
            "address names no variable behind `env:`",
        ),
        (
            "env:redis://:canary@h",
            "redis://h",
            "address names no variable behind",
        ),
        ("env:REDIS", "canary://h", "unknown scheme"),
        ("env:REDIS", "env:REDIS", "no scheme"), // one step, no loop
        ("env:DLOCK_URL", "redis://h", "one of dlock's own variables"),
        ("env:DLOCK_NAMESPACE", "x", "one of dlock's own variables"), // set or not
    ] {
        let wrong = refused(&[("DLOCK_URL", url), ("REDIS", other)]);
        assert!(
            wrong.contains(said) && !wrong.contains("canary"),
            "{url}: {wrong}"
        );
        assert!(!wrong.contains("DLOCK_URL is not set"), "{url}: {wrong}");
    }
    assert!(refused(&[there]).ends_with("or env:REDIS_URL to take it from that variable"));
}

/// `docker run --env-file`, Kubernetes and systemd hand on what a shell takes away.
#[test]
fn a_value_in_quotes_or_with_blanks_at_its_ends_is_refused() {
    for name in [
        "DLOCK_NAMESPACE",
        "DLOCK_URL",
        "DLOCK_GRANT_SECRET",
        "DLOCK_PASSWORD", // none of dlock's
        "DLOCK_HOLDER_NAME",
        "DLOCK_TLS_CA",
        "DLOCK_DEFAULT_TTL",
    ] {
        for value in [
            "\"CANARY:\"",
            "'CANARY:'",
            " CANARY:",
            "CANARY:\t",
            "CANARY:\r\n",
            "“CANARY:”",
            "‘CANARY:’",
            "\" CANARY: \"",
        ] {
            let url = [("DLOCK_URL", "memory://")];
            let others = url.iter().filter(|it| it.0 != name).copied();
            let variables: Vec<_> = others.chain([(name, value)]).collect();
            let why = refused(&variables);
            let says = format!("{name}: stands in quotes or has a blank at an end");
            assert!(why.contains(&says), "{value:?}: {why}");
            let is_secret = ["URL", "SECRET", "PASSWORD"]
                .iter()
                .any(|it| name.ends_with(it));
            let shown = if is_secret { "…" } else { "CANARY:" };
            let says = format!("write {name}={shown} without them");
            assert!(why.contains(&says), "{why}");
            assert!(!(is_secret && why.contains("CANARY")), "{why}");
        }
    }
    let why = refused(&[("DLOCK_URL", "\"memory://\""), ("DLOCK_LAZY", "'x'")]);
    assert!(
        why.contains("DLOCK_LAZY: \"x\" is neither"),
        "all mistakes: {why}"
    );
    for value in ["\"\"", "''", " ", "\" \""] {
        let why = refused(&[("DLOCK_URL", "memory://"), ("DLOCK_NAMESPACE", value)]);
        assert!(why.ends_with("as part of it; leave it out"), "{why}");
    }
    // A quote in it, or at one end, is the value's own.
    for name in ["it's", "\"a", "a'", "'a\"", "a b"] {
        let kept = settings("DLOCK_HOLDER_NAME", name).holder_name;
        assert_eq!(kept.as_deref(), Some(name));
    }
    for namespace in ["\"shop:\"", "'shop:'", " shop:", "shop: "] {
        let why = Config::new("memory://").namespace(namespace).check();
        let why = why.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            why.contains("namespace: stands in quotes"),
            "{namespace}: {why}"
        );
    }
}

/// A namespace that a deployment's template left empty would exclude no other program.
#[test]
fn an_empty_value_is_refused() {
    for name in ["DLOCK_NAMESPACE", "DLOCK_HOLDER_NAME", "DLOCK_LAZY"] {
        let said = refused(&[("DLOCK_URL", "memory://"), (name, "")]);
        assert_eq!(
            said,
            format!("{name} is empty; leave it out for the default")
        );
    }
    assert!(refused(&[("DLOCK_URL", "")]).starts_with("DLOCK_URL is empty; give"));
}

#[test]
fn a_wait_may_be_without_an_end() {
    let said = refused(&[("DLOCK_URL", "memory://"), ("DLOCK_DEFAULT_WAIT", "never")]);
    assert!(said.ends_with("; or write \"forever\""), "{said}");
}

#[test]
fn every_mistake_is_in_one_error() {
    let said = refused(&[
        ("DLOCK_LAZY", "perhaps"),
        ("DLOCK_CONNECTIONS", "many"),
        ("DLOCK_DEFAULT_TTL", "long"),
        ("DLOCK_SPEED", "high"),
    ]);
    for name in [
        "DLOCK_LAZY: ",
        "DLOCK_CONNECTIONS: ",
        "DLOCK_DEFAULT_TTL: ",
        "DLOCK_SPEED is not a setting",
        "DLOCK_URL is not set",
    ] {
        assert!(said.contains(name), "{name}: {said}");
    }
}

#[test]
fn settings_that_are_out_of_range_are_all_in_one_error() {
    let said = refused(&[
        ("DLOCK_URL", "http://host"),
        ("DLOCK_NAMESPACE", "{"),
        ("DLOCK_DEFAULT_TTL", "1ms"),
        ("DLOCK_CONNECT_TIMEOUT", "0s"),
        ("DLOCK_CONNECTIONS", "0"),
        ("DLOCK_MAX_IN_FLIGHT", "0"),
    ]);
    for setting in [
        "url:",
        "namespace:",
        "default_ttl:",
        "connect_timeout:",
        "connections:",
        "max_in_flight:",
    ] {
        assert!(said.contains(setting), "{setting}: {said}");
    }
}

#[test]
fn a_value_that_is_no_text_is_refused_by_its_name() {
    let variables = [
        ("DLOCK_URL".to_owned(), Some("memory://".to_owned())),
        ("DLOCK_NAMESPACE".to_owned(), None),
    ];
    let said = Config::from_variables(variables.into_iter())
        .unwrap_err()
        .to_string();
    assert!(said.contains("DLOCK_NAMESPACE: not valid UTF-8"), "{said}");
}

#[test]
fn the_address_is_never_repeated() {
    for url in [
        "redis://:canary@host:port",
        "canary",
        "canary://x",
        "redis://h/canary",
    ] {
        let said = refused(&[("DLOCK_URL", url), ("DLOCK_SPEED", "1")]);
        assert!(!said.contains("canary"), "{said}");
        let said = refused(&[("DLOCK_URL", url)]);
        assert!(!said.contains("canary"), "{said}");
    }
}

#[test]
fn what_dlock_run_tells_its_command_is_no_setting() {
    let url = ("DLOCK_URL", "memory://");
    let _ = from(&[url, ("DLOCK_KEY", "nightly"), ("DLOCK_FENCE", "7")]).unwrap();
    assert!(refused(&[url, ("DLOCK_KEYS", "nightly")]).contains("is not a setting of dlock"));
}

#[test]
fn a_url_of_the_program_needs_no_variable() {
    let config = Config::from_env_at("redis://:secret@db:7000/2").unwrap();
    assert!(format!("{config:?}").contains("db:7000/2"));
    let wrong = Config::from_env_at("env:DLOCK_TEST_NOWHERE").unwrap_err();
    assert!(!wrong.to_string().contains("DLOCK_URL"), "{wrong}");
    let wrong = Config::from_env_at("").unwrap_err();
    assert!(wrong.to_string().contains("give the server's address"));
    let wrong = Config::from_env_at(" redis://db").unwrap_err().to_string();
    assert!(
        !wrong.contains("DLOCK_URL"),
        "no variable is to blame: {wrong}"
    );
    assert!(wrong.contains("has a blank at an end"), "{wrong}");
}

#[test]
fn what_kubernetes_says_of_a_service_is_not_ours() {
    let variables = [
        ("DLOCK_URL", "memory://"),
        ("DLOCK_PORT", "tcp://10.0.0.7:6379"),
        ("DLOCK_PORT_6379_TCP_ADDR", "10.0.0.7"),
        ("DLOCK_REDIS_SERVICE_HOST", "10.0.0.7"),
        ("DLOCK_SERVICE_PORT", "6379"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), Some(value.to_owned())));
    assert!(Config::from_variables(variables.into_iter()).is_ok());
}

#[test]
fn what_is_unreadable_and_what_is_out_of_range_is_said_at_once() {
    let said = refused(&[
        ("DLOCK_URL", "memory://"),
        ("DLOCK_DEFAULT_TTL", "10"),
        ("DLOCK_CONNECTIONS", "0"),
    ]);
    assert!(said.contains("DLOCK_DEFAULT_TTL"), "{said}");
    assert!(said.contains("connections: 0"), "{said}");
}
