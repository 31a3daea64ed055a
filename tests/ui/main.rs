//! What must not compile, and what the user reads then: one mistake a file, with the words in its `.stderr`.
//!
//! Below the mistake a file has it *mended*, as the words say: that part must compile. `main` calls both, since a function stays
//! what it is, whatever its attribute says. `said` holds all the words to some rules.
//!
//! What only rustc can show stands here: its own words around ours (`compiler`), for each argument the token that is underlined, and
//! the attribute beside other macros. All that the attribute says, to the letter, is in `dlock-macros/src/tests/diagnostics`.
//!
//! The folders end in words of ours, the same with every compiler. `compiler` ends in the compiler's, which change from version
//! to version: they are compared with the one that wrote them, and skipped elsewhere. After an update of [`COMPILER`]:
//! `TRYBUILD=overwrite cargo test -p dlock-ui`, and read the difference.
//!
//! A package of its own, since a run of these compiles all of its package's dependencies once more.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

mod said;

use std::{fs, path::Path, process::Command};

/// The compiler whose words are in `compiler/*.stderr`.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn mistakes_are_explained() {
    let version = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let cases = trybuild::TestCases::new();
    for folder in folders() {
        if folder == "compiler" && !version.starts_with(COMPILER) {
            println!(
                "compiler is skipped: its words are those of {COMPILER}x, and this is {version}"
            );
            continue;
        }
        cases.compile_fail(format!("{folder}/*.rs"));
    }
}

/// The folders of mistakes.
fn folders() -> Vec<String> {
    let mut folders: Vec<_> = fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    folders.sort();
    assert!(folders.iter().any(|folder| folder == "compiler"));
    folders
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
