//! What must not compile, and what the user reads then: one mistake a file, with the words in its `.stderr`.
//!
//! `ui/*.rs` end in words of ours, the same with every compiler. `ui/compiler/*.rs` end in the compiler's, which change from version to
//! version: they are compared with the one that wrote them, and skipped elsewhere. After an update of [`COMPILER`]:
//! `TRYBUILD=overwrite cargo test -p dlock-tests --test forms ui::`, and read the difference.

use std::process::Command;

/// The compiler whose words are in `ui/compiler/*.stderr`.
const COMPILER: &str = "rustc 1.95.";

#[test]
fn mistakes_are_explained() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("forms/ui/*.rs");
    let version = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if version.starts_with(COMPILER) {
        cases.compile_fail("forms/ui/compiler/*.rs");
    } else {
        println!(
            "forms/ui/compiler is skipped: its words are those of {COMPILER}x, and this is {version}"
        );
    }
}
