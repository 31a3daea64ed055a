//! What must not compile, and what the user reads then: one mistake in each file, with the messages
//! in its `.stderr`.
//!
//! Below the mistake a file has it *mended*, as the message says: that part must compile. `main`
//! calls both, because a function with a wrong attribute stays usable. `said` checks rules for all
//! messages.
//!
//! These files have what only rustc can show: its own messages, alone or around ours (`compiler`),
//! that it adds none to ours, and the attribute beside other macros or under another name. Every
//! message of the attribute, with what it underlines and its fix, is a case of
//! `dlock-macros/src/tests/diagnostics/messages.txt`.
//!
//! The messages in all folders but `compiler` are ours, the same with every compiler. Those in
//! `compiler` are rustc's and change between versions, so they are compared only with the version
//! that wrote them. After an update of [`COMPILER`]: `TRYBUILD=overwrite cargo test -p dlock-ui`,
//! and read the difference.
//!
//! A package of its own, because a run of these tests compiles all dependencies of its package once
//! more.

#![allow(
    clippy::unwrap_used,
    reason = "a test fails by panicking; clippy knows this only inside the test functions"
)]

mod said;

use std::{fs, path::Path, process::Command};

/// The version that wrote `compiler/*.stderr`.
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
