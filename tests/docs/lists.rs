//! Tables of arguments and settings: they have exactly the names that the code has.
//!
//! The names are read from the source text, because neither list is public. Other cells are not
//! compared.

use crate::page::Page;

const ARGUMENTS: &str = include_str!("../../dlock-macros/src/args/names.rs");
const SETTINGS: &str = include_str!("../../dlock-runtime/src/values/config/environment.rs");
const ATTRIBUTE: &str = include_str!("../../dlock-macros/src/attribute.md");

/// The table under this head, row by row: the names in each cell.
pub(crate) fn rows<'a>(page: &'a Page, head: &str) -> Vec<Vec<Vec<&'a str>>> {
    let lines = page.prose.iter().map(|(_, text)| text.as_str());
    let mut lines = lines.skip_while(|text| *text != head);
    assert_eq!(lines.next(), Some(head), "{}", page.path);
    let rows = lines.skip(1).take_while(|text| text.starts_with('|'));
    rows.map(|row| row.split(" | ").map(names).collect())
        .collect()
}

/// The names in backticks, each up to the first character that no name has. Neighbours with the
/// same name count as one.
pub(crate) fn names(cell: &str) -> Vec<&str> {
    let is_no_name = |c: char| !c.is_alphanumeric() && c != '_';
    let quoted = cell.split('`').skip(1).step_by(2);
    let names = quoted.filter_map(|text| text.split(is_no_name).next());
    let mut names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
    names.dedup();
    names
}

/// The string literals in `constant`'s value.
fn texts<'a>(source: &'a str, constant: &str) -> Vec<&'a str> {
    let (_, from) = source.split_once(&format!("const {constant}: ")).unwrap();
    let value = from.split("];\n").next().unwrap();
    value.split('"').skip(1).step_by(2).collect()
}

fn arguments(page: &Page) -> Vec<&str> {
    let rows = rows(page, "| argument | meaning | without it |");
    rows.iter().flat_map(|row| row[0].clone()).collect()
}

/// Each setting's method of `Config` and its variable, sorted.
fn settings(page: &Page) -> Vec<(Vec<&str>, Vec<&str>)> {
    let rows = rows(page, "| `Config` | variable | default | meaning |");
    let mut settings: Vec<_> = rows
        .iter()
        .map(|row| (row[0].clone(), row[1].clone()))
        .collect();
    settings.sort();
    settings
}

/// As [`settings`], from the code.
fn accepted_settings() -> Vec<(Vec<&'static str>, Vec<&'static str>)> {
    let (_, from) = SETTINGS.split_once("const SETTINGS: ").unwrap();
    let value = from.split("];\n").next().unwrap();
    let setters = value.split("Setting::").skip(1);
    let setters = setters.map(|from| from.split(['(', ')']).nth(1).unwrap());
    let variables = texts(SETTINGS, "SETTINGS");
    assert_eq!(setters.clone().count(), variables.len());
    let both = setters.zip(variables).chain([("Config::new", "DLOCK_URL")]);
    // A setter that is no method of `Config` sets half of a setting.
    let both = both.filter_map(|(setter, variable)| {
        let method = setter.strip_prefix("Config::")?;
        Some((vec![method], vec![variable]))
    });
    let more = [
        (
            vec!["tls_identity"],
            vec!["DLOCK_TLS_CERT", "DLOCK_TLS_KEY"],
        ),
        (vec!["credentials"], vec![]), // functions
        (vec!["connector"], vec![]),
        (vec!["listener"], vec![]),
    ];
    let mut settings: Vec<_> = both.chain(more).collect();
    settings.sort();
    settings
}

pub(crate) fn page(path: &str) -> Page {
    crate::page::read(&crate::root(), path).unwrap()
}

#[test]
fn each_argument_has_a_row() {
    let accepted = texts(ARGUMENTS, "ARGUMENTS");
    assert!(accepted.contains(&"ttl"), "{accepted:?}");
    assert_eq!(arguments(&page("docs/reference/arguments.md")), accepted);
    let attribute = Page::parse("dlock-macros/src/attribute.md", ATTRIBUTE);
    assert_eq!(arguments(&attribute), accepted);
}

#[test]
fn each_setting_has_a_row() {
    assert_eq!(
        settings(&page("docs/reference/configuration.md")),
        accepted_settings()
    );
}

/// Checks the table in the documentation of `Config::from_env`.
#[test]
fn each_variable_has_a_row() {
    let lines = SETTINGS
        .lines()
        .filter_map(|it| it.strip_prefix("    /// "));
    let text: Vec<_> = lines.collect();
    let page = Page::parse("environment.rs", &text.join("\n"));
    let rows = rows(&page, "| variable | like | default |");
    let listed: Vec<_> = rows.iter().flat_map(|row| row[0].clone()).collect();
    let mut accepted = vec!["DLOCK_URL"];
    accepted.extend(texts(SETTINGS, "SETTINGS"));
    assert_eq!(listed, accepted);
}

#[test]
fn wrong_rows_are_seen() {
    let listed = |rows: &str| {
        let table = format!("| argument | meaning | without it |\n| --- | --- | --- |\n{rows}");
        arguments(&Page::parse("docs/PAGE.md", &table)).join(" ")
    };
    for (rows, expected) in [
        (
            "| `a = \"1s\"`, `\"0s\"` | `x` | `y` |\n| [`b`, `b = 1`](#b) | | |",
            "a b",
        ),
        ("| `a` | | |\n| `b` | | |\n| `a` | | |", "a b a"),
        ("| `a`, `b` | | |\n\n| `c` | | |", "a b"),
        ("| a | `b` | |", ""),
    ] {
        assert_eq!(listed(rows), expected, "{rows}");
    }
}
