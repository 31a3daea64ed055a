//! Durations: which are accepted, which are refused and with which hint; what `format` writes is
//! parsed again.

use super::{format, parse};
use proptest::prelude::{any, proptest};
use std::time::Duration;

#[track_caller]
fn check(text: &str, millis: u64) {
    assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(parse(text).unwrap_err().to_string(), expected);
}

#[test]
fn reads_units() {
    check("0s", 0);
    check("250ms", 250);
    check("10s", 10_000);
    check("2m", 120_000);
    check("3h", 10_800_000);
    check("1d", 86_400_000);
    check("1m30s", 90_000);
    check("1m30ms", 60_030);
    check("1d2h3m4s5ms", 93_784_005);
    check("90m", 5_400_000);
    check("007s", 7_000);
}

#[test]
fn refuses_what_has_no_single_meaning() {
    check_error(
        "",
        r#"duration "" is empty: write one such as "10s" or "1m30s""#,
    );
    check_error(
        "10",
        r#"duration "10" needs a unit, ms, s, m, h or d: write "10s""#,
    );
    check_error(
        "1m30",
        r#"duration "1m30" needs a unit, ms, s, m, h or d: write "1m30s""#,
    );
    check_error(
        "1h30",
        r#"duration "1h30" needs a unit, ms, s, m, h or d: write "1h30m" or "1h30s""#,
    );
    check_error(
        "1d2",
        r#"duration "1d2" needs a unit, ms, s, m, h or d: write "1d2h" or "1d2m""#,
    );
    check_error(
        "1s5",
        r#"duration "1s5" needs a unit, ms, s, m, h or d: write "1s5ms""#,
    );
    check_error(
        "1ms5",
        r#"duration "1ms5" needs a unit, ms, s, m, h or d: write "10s""#,
    );
    check_error(
        "s",
        r#"duration "s" needs a number before the unit, such as "10s""#,
    );
    check_error(
        "10x",
        r#"duration "10x" has the unknown unit "x": use ms, s, m, h or d"#,
    );
    check_error(
        "10S",
        r#"duration "10S" has the unknown unit "S": write "10s""#,
    );
    check_error(
        "10sm",
        r#"duration "10sm" has the unknown unit "sm": use ms, s, m, h or d"#,
    );
    check_error(
        "30s1m",
        r#"duration "30s1m" must name the largest unit first and each once: write "1m30s""#,
    );
    check_error(
        "1s1s",
        r#"duration "1s1s" must name the largest unit first and each once: write "2s""#,
    );
    for (text, shown) in [
        ("1.5s", "'.'"),
        ("-1s", "'-'"),
        ("1 x", "' '"),
        ("1µs", "'µ'"),
        ("١s", "'١'"),
    ] {
        check_error(
            text,
            &std::format!(
                "duration {text:?} contains {shown}: write whole numbers with units and nothing between, such as \"1500ms\" or \"1m30s\""
            ),
        );
    }
}

/// The hint spells out what was meant, if that is clear.
#[test]
fn says_what_was_meant() {
    for (text, meant) in [
        ("10 s", "10s"),
        ("1m 30s", "1m30s"),
        ("1_500ms", "1500ms"),
        ("+1s", "1s"),
        ("10sec", "10s"),
        ("5Minutes", "5m"),
        ("250millis", "250ms"),
        ("1h30min", "1h30m"),
        ("2days", "2d"),
        ("5m1h", "1h5m"),
    ] {
        let said = parse(text).unwrap_err().to_string();
        assert!(said.ends_with(&std::format!(": write {meant:?}")), "{said}");
        assert!(parse(meant).is_ok());
    }
}

#[test]
fn refuses_overflow() {
    check("18446744073709551615ms", u64::MAX);
    for text in [
        "18446744073709551616ms",
        "18446744073709551615s",
        "18446744073709551s1000ms",
    ] {
        check_error(
            text,
            &std::format!(
                "duration {text:?} is too long to be counted in milliseconds: write a shorter one"
            ),
        );
    }
}

#[test]
fn formats() {
    for (duration, text) in [
        (Duration::ZERO, "0s"),
        (Duration::from_millis(90_500), "1m30s500ms"),
        (Duration::from_micros(1_999), "1ms"),
        (Duration::from_secs(86_400), "1d"),
        (Duration::MAX, "213503982334601d7h15s999ms"),
    ] {
        assert_eq!(format(duration), text);
    }
}

proptest! {
    #[test]
    fn parse_reads_what_format_writes(millis in any::<u64>()) {
        check(&format(Duration::from_millis(millis)), millis);
    }

    #[test]
    fn parse_never_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn parse_never_panics_near_its_own_notation(text in "([0-9]{0,20}(ms|s|m|h|d|x)?){0,4}") {
        let _ = parse(&text);
    }
}
