//! What `docs/reference/command.md` says is so: its commands are understood, and its statuses and options
//! are all.

use crate::lab::{Lab, text};

const PAGE: &str = include_str!("../../../docs/reference/command.md");
const STATUSES: &str = include_str!("../src/status.rs");

/// The lines of all blocks, without comments.
fn lines() -> impl Iterator<Item = &'static str> {
    let blocks = PAGE.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines);
    lines.map(|line| line.split("  #").next().unwrap_or_default().trim())
}

#[test]
fn its_commands_are_understood() {
    let lab = Lab::start();
    let mut commands = 0;
    for line in lines().filter(|line| !line.starts_with("dlock:")) {
        let from = line
            .find("dlock ")
            .filter(|at| line[..*at].is_empty() || line[..*at].ends_with("/usr/local/bin/"));
        let Some(from) = from else { continue };
        let line = line[from..].split(" && ").next().unwrap();
        let line = line.split(" -- ").next().unwrap().replace('\'', "");
        // Arguments are read in order, so an unknown one before `--help` is an error.
        let mut args: Vec<_> = line.split_whitespace().skip(1).collect();
        args.push("--help");
        let output = lab.output(&args);
        assert!(
            text(&output.stdout).contains("Usage: dlock "),
            "{line}: {output:?}"
        );
        commands += 1;
    }
    assert!(commands > 10, "{commands}");
}

#[test]
fn its_statuses_are_all() {
    let table = PAGE.split("## Exit status").nth(1).unwrap();
    let table = table.split("\n\n").nth(1).unwrap();
    let said: Vec<u8> = table
        .lines()
        .filter_map(|row| row.split('|').nth(1))
        .flat_map(|cell| cell.split(','))
        .filter_map(|number| number.trim().parse().ok())
        .collect();
    let constants = STATUSES.lines().filter_map(|line| {
        let value = line
            .strip_prefix("pub(crate) const ")?
            .split(" = ")
            .nth(1)?;
        value.trim_end_matches(';').parse::<u8>().ok()
    });
    let mut known: Vec<u8> = constants.chain([0]).collect();
    known.sort_unstable();
    assert_eq!(said, known);
}

#[test]
fn it_names_each_option_of_run() {
    let lab = Lab::start();
    let help = text(&lab.output(&["run", "--help"]).stdout);
    let words = help
        .split_whitespace()
        .filter(|word| word.starts_with("--") && word.len() > 2);
    for option in words.map(|word| word.trim_matches(['`', ','])) {
        assert!(
            PAGE.contains(&format!("`{option}`")) || option == "--help",
            "{option}"
        );
    }
}
