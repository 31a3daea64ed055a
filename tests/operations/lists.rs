//! The errors, events and concerns that the pages list are those that the code has.

use std::collections::BTreeSet;

use crate::page::{quoted, rows, section};

const ERRORS: &str = include_str!("../../dlock-runtime/src/values/error.rs");
const FINDINGS: &str = include_str!("../../dlock-runtime/src/values/finding.rs");
const EVENTS: [&str; 3] = [
    include_str!("../../dlock-runtime/src/observe/mod.rs"),
    include_str!("../../dlock-runtime/src/observe/call.rs"),
    include_str!("../../dlock-runtime/src/observe/hold.rs"),
];
const LEVELS: [&str; 4] = ["error", "warn", "info", "debug"];

/// The variants of an enum, as written in the source.
fn variants(name: &str) -> Vec<&'static str> {
    variants_in(ERRORS, name)
}

fn variants_in(source: &'static str, name: &str) -> Vec<&'static str> {
    let (_, from) = source.split_once(&format!("pub enum {name} {{\n")).unwrap();
    let body = from.split("\n}\n").next().unwrap();
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let lines = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    let end = |c: char| !c.is_alphanumeric();
    lines.map(|line| line.split(end).next().unwrap()).collect()
}

#[test]
fn each_error_has_a_row() {
    let mut expected = Vec::new();
    for variant in variants("LockError") {
        match variant {
            "Lost" => expected.extend(variants("LostCause").iter().map(|it| format!("Lost({it})"))),
            "Unavailable" => {
                let causes = variants("UnavailableCause");
                expected.extend(causes.iter().map(|it| format!("Unavailable({it})")));
            }
            "Refused" => {
                expected.extend(
                    variants("Refusal")
                        .iter()
                        .map(|it| format!("Refused({it})")),
                );
            }
            plain => expected.push(plain.to_owned()),
        }
    }
    let mut listed: Vec<String> = rows("All errors")
        .iter()
        .flat_map(|row| quoted(row[0]))
        .map(str::to_owned)
        .collect();
    expected.sort();
    listed.sort();
    assert_eq!(listed, expected);
}

#[test]
fn each_concern_has_a_row() {
    let mut expected = variants_in(FINDINGS, "Concern");
    let mut listed: Vec<&str> = rows("Check")
        .iter()
        .flat_map(|row| quoted(row[0]))
        .collect();
    listed.sort_unstable();
    listed.dedup();
    expected.sort_unstable();
    assert_eq!(listed, expected);
}

const METRICS: &str = include_str!("../../dlock-runtime/src/observe/metrics.rs");
const RULES: &str = include_str!("../../docs/operate/dlock.rules.yml");
const DASHBOARD: &str = include_str!("../../docs/operate/dashboard.json");

/// The names of metrics in a text, without what Prometheus adds.
fn metrics_in(text: &'static str) -> BTreeSet<&'static str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names =
        words.filter(|word| word.starts_with("dlock_") && !word.starts_with("dlock_runtime"));
    let bare = |name: &'static str| {
        let ends = ["_bucket", "_count"].iter();
        let mut bare = ends.filter_map(|end| name.strip_suffix(end));
        bare.next().unwrap_or(name)
    };
    names.map(bare).collect()
}

#[test]
fn each_metric_has_a_row_and_a_panel() {
    let made = metrics_in(METRICS);
    let rows = rows("Metrics");
    let listed: BTreeSet<&str> = rows.iter().flat_map(|row| quoted(row[0])).collect();
    assert_eq!(listed, made);
    assert_eq!(metrics_in(DASHBOARD), made);
    assert!(metrics_in(RULES).is_subset(&made));
}

#[test]
fn each_rule_has_a_row() {
    let rules = RULES
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let rows = rows("Prometheus rules");
    let listed = rows.iter().map(|row| quoted(row[0])[0]);
    assert!(rules.eq(listed));
}

/// Level, text and fields of each event in `observe`.
fn events() -> Vec<(&'static str, &'static str, Vec<String>)> {
    let calls_of = |file: &'static str, level: &'static str| -> Vec<_> {
        let call = format!("{level}!(");
        let calls = file.split(&*call).skip(1);
        calls
            .map(|from| (level, from.split(");").next().unwrap()))
            .collect()
    };
    let of_file = |file: &&'static str| LEVELS.map(|level| calls_of(file, level)).concat();
    let calls = EVENTS.iter().flat_map(of_file);
    let event = |(level, call): (&'static str, &'static str)| {
        let (fields, rest) = call.split_once('"').expect("a text");
        let text = rest.split('"').next().unwrap();
        let name = |it: &'static str| it.split('=').next().unwrap_or(it).trim();
        let fields = fields
            .split(',')
            .map(|it| name(it).trim_start_matches(['%', '?']));
        let mut fields: Vec<String> = fields.map(str::to_owned).collect();
        fields.retain(|field| !field.is_empty() && !field.starts_with("parent:"));
        (level, text, fields)
    };
    calls.map(event).collect()
}

#[test]
fn each_event_has_a_row() {
    let events = events();
    let listed = rows("Log");
    assert_eq!(listed.len(), events.len());
    for (level, text, fields) in events {
        let row = listed.iter().find(|row| text.starts_with(row[1]));
        let row = row.unwrap_or_else(|| panic!("no row for {text:?}"));
        assert_eq!(
            (row[0], quoted(row[2])),
            (level, fields.iter().map(String::as_str).collect())
        );
    }
}

/// A query with an alert's words finds the event.
#[test]
fn each_alert_is_an_event() {
    let alerts = rows("What to alert on");
    let ours = alerts.iter().take_while(|row| row[0] != "on Redis");
    let phrases: Vec<&str> = ours
        .flat_map(|row| quoted(row[1]))
        .filter(|it| it.contains(' '))
        .collect();
    assert!(phrases.len() >= 5, "{phrases:?}");
    for phrase in phrases {
        let found = events().iter().any(|(_, text, _)| text.starts_with(phrase));
        assert!(found, "{phrase}");
    }
}

/// The fields of `INFO` that the page of alerts recommends to watch exist.
#[tokio::test]
async fn each_field_of_info_exists() {
    let server = dlock_harness::RedisServer::start();
    let replica = server.port().to_string();
    let replica = dlock_harness::RedisServer::builder()
        .args(["--replicaof", "127.0.0.1", &replica])
        .start();
    let info: String = replica.ask(&["INFO"]).await;
    let fields = [
        "evicted_keys",
        "rejected_connections",
        "used_memory",
        "maxmemory",
        "rdb_last_bgsave_status",
        "master_link_status",
    ];
    for field in fields {
        assert!(section("What to alert on").contains(field), "{field}");
        assert!(info.contains(&format!("\n{field}:")), "{field}");
    }
}
