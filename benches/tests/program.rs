//! The program runs to its end, and reports mistakes on its command line. No test checks a figure:
//! a busy machine changes them.

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
    let out = folder.path().join("new/fig.ures");
    let words = ["--only", "w1", "--out", out.to_str().unwrap()];
    let ran = run(&[&["--quick", "--unpinned"], &words[..]].concat());
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    let page = read(&folder.path().join("new/fig.ures.md"));
    for told in [
        " cores (nobody pinned), load ",
        " at the start; quick: few rounds, wide quartiles.",
        "\n\n## W1: acquire and release, one task\n\n| tasks | contender | time / raw | ",
        " |\n| --- | --- | --- | ",
        "\n| 1 | raw | 1.00 [1.00–1.00] |",
        "\n| 1 | rslock | ",
        "\n| 1 | dlock | ",
        "\n| 1 | dlock, background | ",
        " |\n\n1 task: 100 cycles a task in each of ",
    ] {
        assert!(page.contains(told), "{told}: {page}");
    }
    assert!(text(&ran.stdout).contains(&page), "it is printed too");
    let picture = read(&folder.path().join("new/fig.ures.svg"));
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
    let [page, picture] = page_and_picture("bounds", &[]);
    for row in [
        "| exclusive | 1000 silent | ",
        "| read | 10 alive | ",
        "| write | 1000 disconnected | ",
        "| permits = 1 | 10 silent | ",
        "| owner | 1000 alive | ",
    ] {
        assert!(page.contains(row), "{row}: {page}");
    }
    each_panel_is_in_the_picture(&picture);
}

#[track_caller]
fn each_panel_is_in_the_picture(picture: &str) {
    let picture = roxmltree::Document::parse(picture).unwrap();
    let texts = picture.descendants().filter_map(|node| node.text());
    let texts: Vec<&str> = texts.map(str::trim).collect();
    for queue in ["silent", "disconnected", "alive"] {
        let title = format!("Bounds: longest script of a release, ms; the queue is {queue}");
        assert!(texts.contains(&title.as_str()), "{title}: {texts:?}");
    }
    for told in ["10", "1000", "exclusive", "permits = 1", "owner"] {
        let times = texts.iter().filter(|text| **text == told).count();
        assert!(times >= 3, "{told}: {texts:?}");
    }
    let decimals = texts.iter().filter_map(|text| text.split_once('.'));
    let mut decimals = decimals.map(|(_, decimals)| decimals.len());
    assert!(
        decimals.clone().count() > 10 && decimals.all(|decimals| decimals <= 2),
        "{texts:?}"
    );
}

#[test]
fn a_mistake_is_named_and_costs_no_run() {
    for (words, told) in [
        ("--fast", "`--fast` is no argument; arguments: [--quick]"),
        ("--only", "--only needs a value"),
        ("--locks 0", "--locks 0: not a whole number, 1 to"),
        ("--locks 1e6", "--locks 1e6: not a whole number"),
        ("--each-way -1", "--each-way -1: not a number, 0 to"),
        ("--each-way NaN", "--each-way NaN: not a number, 0 to"),
        ("--window 0", "--window 0: not a whole number, 1 to"),
        ("--ttl 3601", "--ttl 3601: not a whole number, 1 to 3600;"),
        ("--out  ", "--out needs a value"),
        ("--only w1,w9", "`w9` is no program; there are w1"),
        ("--only  ", "--only needs a value"),
        ("--only w1,", "`` is no program"),
        ("--only W1", "`W1` is no program"),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_dlock-benches"));
        let program = program.args(words.split_terminator(' '));
        let ran = program.env("PATH", "").output().unwrap(); // without a server nothing runs
        let said = text(&ran.stderr);
        assert!(
            !ran.status.success() && ran.stdout.is_empty(),
            "{words}: {said}"
        );
        let is_named = said.starts_with(&format!("dlock-benches: {told}"));
        assert!(is_named && said.contains("--only w1,w2"), "{words}: {said}");
    }
}

#[test]
fn help_names_the_arguments_and_the_programs() {
    let ran = run(&["--quick", "--help"]);
    assert!(ran.status.success());
    let told = text(&ran.stdout);
    assert!(
        told.contains("arguments: [--quick] [--only w1,w2]"),
        "{told}"
    );
    assert!(
        told.contains("w7, growth, hostile, bounds, network, tls, slots, cluster, quorum"),
        "{told}"
    );
}

#[test]
fn each_contender_has_a_row_over_tls_beside_that_without() {
    let page = quick("tls", &[]);
    let cell = |row: &str, cell: usize| {
        let line = page.lines().find(|line| line.starts_with(row));
        let cell = line.and_then(|line| line.split(" | ").nth(cell));
        cell.unwrap_or_else(|| panic!("{row}: {page}"))
    };
    let is_measured = |row: &str, place: usize| {
        let figure = cell(row, place).split(' ').next().unwrap();
        assert!(figure.parse::<f64>().unwrap() > 0.0, "{row}: {page}");
    };
    for tasks in [1, 16, 64, 256] {
        for contender in ["raw", "dlock"] {
            let plain = format!("| {tasks} | {contender} | ");
            assert_eq!(cell(&plain, 3), "1.00 [1.00–1.00]", "its own divisor");
            let secure = format!("| {tasks} | {contender} over TLS | ");
            (2..=9).for_each(|place| is_measured(&secure, place));
        }
    }
    for contender in ["raw", "raw over TLS", "dlock", "dlock over TLS"] {
        is_measured(&format!("| {contender} | "), 1);
    }
}

#[test]
fn a_server_built_without_tls_is_named() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempfile::tempdir().unwrap();
    let server = folder.path().join("redis-server");
    // What it says of an option that it does not know, and of every other a version.
    let says = "#!/bin/sh\ncase $1 in --version) echo 'Redis server v=7.0.15 sha' ;; *) echo 'Bad directive or wrong number of arguments' >&2; exit 1 ;; esac\n";
    fs::write(&server, says).unwrap();
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755)).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_dlock-benches"));
    let program = program.args(["--only", "tls"]).env("PATH", folder.path());
    let ran = program.output().unwrap();
    assert!(!ran.status.success());
    let told = text(&ran.stderr);
    assert!(told.contains("was built without TLS"), "{told}");
}

#[test]
fn behind_a_wire_a_cycle_takes_two_round_trips_at_least() {
    let page = quick("w1", &["--each-way", "3"]);
    let title = "## W1: acquire and release, one task, 3 ms each way";
    assert!(page.contains(title), "{page}");
    assert!(page.contains("The wire's process used "), "{page}");
    for contender in ["raw", "rslock", "dlock", "raw, without TCP_NODELAY"] {
        let row = page
            .lines()
            .find(|row| row.starts_with(&format!("| 1 | {contender} | ")));
        let cycle = row.and_then(|row| row.split(" | ").nth(4)).unwrap();
        let micros: f64 = cycle.split(' ').next().unwrap().parse().unwrap();
        assert!(micros >= 12_000.0, "{row:?}");
    }
}

#[test]
fn without_valgrind_it_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let servers = std::env::split_paths(&path).map(|folder| folder.join("redis-server"));
    let server = servers.into_iter().find(|file| file.exists()).unwrap();
    std::os::unix::fs::symlink(server, folder.path().join("redis-server")).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_dlock-benches"));
    let program = program.args(["--only", "instructions"]);
    let ran = program.env("PATH", folder.path()).output().unwrap();
    assert!(!ran.status.success());
    let told = text(&ran.stderr);
    assert!(told.contains("apt-get install valgrind"), "{told}");
}

/// The page of one program.
fn quick(program: &str, words: &[&str]) -> String {
    let [page, _] = page_and_picture(program, words);
    page
}

fn page_and_picture(program: &str, words: &[&str]) -> [String; 2] {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("figures");
    let first = ["--quick", "--only", program, "--out", out.to_str().unwrap()];
    let ran = run(&[&first, words].concat());
    assert!(ran.status.success(), "{}", text(&ran.stderr));
    ["md", "svg"].map(|ending| read(&out.with_extension(ending)))
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}
