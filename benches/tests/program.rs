//! The program itself: that it runs to its end, and what it answers to a mistake. No figure is looked at: a test is no place for one.

#![allow(
    clippy::unwrap_used,
    reason = "test code, also where clippy does not see it"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run(words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_dlock-benches");
    Command::new(program).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_shortest_run_leaves_a_page_and_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("new/figures");
    let words = ["--quick", "--only", "w1", "--out", out.to_str().unwrap()];
    let ran = run(&words);
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let page = read(&out.with_extension("md"));
    for row in [
        "| 1 | raw | 1.00 [1.00–1.00] |",
        "| 1 | rslock | ",
        "| 1 | dlock | ",
        "| 1 | dlock, background | ",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    assert!(text(&ran.stdout).contains(&page), "it is printed too");
    let picture = read(&out.with_extension("svg"));
    let picture = roxmltree::Document::parse(&picture).unwrap();
    assert_eq!(picture.root_element().tag_name().name(), "svg");
}

#[test]
fn the_locks_of_w5_are_held_for_a_window_of_ones_own() {
    let words = ["--locks", "30", "--ttl", "2", "--window", "3"];
    let page = quick("w5", &words);
    for told in [
        "## W5: 30 locks held by one process, ttl 2 s, renewed",
        "| raw, a task per lock | ",
        "| rslock, `using` | ",
        "| dlock, guards | ",
        "Rounds of 3 s: 1. raw and dlock renew every 0.7 s,",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
}

#[test]
fn growth_has_a_row_for_each_number() {
    let page = quick("growth", &[]);
    for (with, contender) in [
        ("2 waiters, 2 processes", "dlock, each turn by the server"),
        ("20 waiters, 2 processes", "dlock, fair"),
        ("200 waiters, 8 processes", "dlock"),
        ("1 other lock", "raw"),
        ("100000 other locks", "dlock"),
    ] {
        let row = format!("| {with} | {contender} | ");
        assert!(page.contains(&row), "{row}: {page}");
    }
}

#[test]
fn bounds_has_a_row_for_each_kind_and_queue() {
    let page = quick("bounds", &[]);
    for row in [
        "| exclusive | 1000 silent | ",
        "| read | 10 alive | ",
        "| write | 1000 deaf | ",
        "| permits = 1 | 10 silent | ",
        "| owner | 1000 alive | ",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
}

#[test]
fn a_mistake_costs_no_run() {
    let ran = run(&["--only", "w1,x"]);
    assert!(!ran.status.success());
    let told = text(&ran.stderr);
    assert!(told.contains("`x` is no program; there are w1"), "{told}");
    assert!(told.contains("--quick"), "{told}");
    assert!(ran.stdout.is_empty());
}

/// The page of one program.
fn quick(program: &str, words: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("figures");
    let first = ["--quick", "--only", program, "--out", out.to_str().unwrap()];
    let ran = run(&[&first, words].concat());
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    read(&out.with_extension("md"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
