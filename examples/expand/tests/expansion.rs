//! `docs/notes/expansion.md` shows exactly what the compiler sees.
//!
//! The text comes from the compiler in the same way as cargo-expand gets it; cargo-expand need not
//! be installed. How a compiler prints its own macros depends on its version, so the test compares
//! only with the version that printed the page. After a change of the expansion or of [`COMPILER`],
//! run `UPDATE_EXPANSION=1 cargo test -p dlock-expand`, and read the page around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test reports by panicking"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use syn::{File, Item};

/// The version that printed the page.
const COMPILER: &str = "rustc 1.95.";

const FUNCTIONS: [&str; 1] = ["purchase"];

#[test]
fn the_page_shows_what_the_compiler_sees() {
    let version = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    if !version.starts_with(COMPILER) {
        println!(
            "docs/notes/expansion.md is not compared: its words are those of {COMPILER}x, and this is {version}"
        );
        return;
    }
    let expanded = expand();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/notes/expansion.md");
    let mut page = std::fs::read_to_string(&path).unwrap();
    let mut differences = String::new();
    for name in FUNCTIONS {
        let (printed, shown) = (print(&expanded, name), shown(&page, name));
        if printed != shown {
            differences += &difference(name, &shown, &printed);
            page = page.replace(&(command(name) + &shown), &(command(name) + &printed));
        }
    }
    if std::env::var_os("UPDATE_EXPANSION").is_some() {
        std::fs::write(path, page).unwrap();
        print!("{differences}");
        return;
    }
    assert!(
        differences.is_empty(),
        "docs/notes/expansion.md shows another expansion than the compiler sees:\n{differences}\
         If that is meant: UPDATE_EXPANSION=1 cargo test -p dlock-expand, and read the page around it."
    );
}

/// The page also shows the function as it is written.
#[test]
fn the_page_shows_the_functions_of_this_crate() {
    let page = include_str!("../../../docs/notes/expansion.md");
    let functions = include_str!("../src/lib.rs")
        .split("#[distributed_lock")
        .skip(1);
    for function in functions {
        let (body, _) = function.split_once("\n}\n").unwrap();
        assert!(
            page.contains(body),
            "docs/notes/expansion.md does not show{body}"
        );
    }
}

/// The crate after expansion. It is built in a folder of its own, because the variable that permits
/// it would make other builds start again.
fn expand() -> File {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("expansion");
    let cargo = Command::new(env!("CARGO"))
        .args(["rustc", "--package", "dlock-expand", "--lib"])
        .args(["--locked", "--offline", "--quiet"])
        .args(["--profile=check", "--", "-Zunpretty=expanded"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTC_BOOTSTRAP", "1")
        .output()
        .unwrap();
    let words = String::from_utf8(cargo.stderr).unwrap();
    assert!(cargo.status.success(), "{words}");
    syn::parse_file(&String::from_utf8(cargo.stdout).unwrap()).unwrap()
}

/// The output of `cargo expand -p dlock-expand <name>`.
fn print(expanded: &File, name: &str) -> String {
    let function = |item: &&Item| matches!(item, Item::Fn(function) if function.sig.ident == name);
    let item = expanded.items.iter().find(function).unwrap();
    prettyplease::unparse(&File {
        shebang: None,
        frontmatter: None,
        attrs: Vec::new(),
        items: vec![item.clone()],
    })
}

/// The block of the page below the command for this function.
fn shown(page: &str, name: &str) -> String {
    let command = command(name);
    let (_, rest) = page.split_once(&command).expect(&command);
    let (shown, _) = rest.split_once("```").unwrap();
    shown.to_owned()
}

fn command(name: &str) -> String {
    format!("<!-- cargo expand -p dlock-expand {name} -->\n\n```rust,ignore\n")
}

/// The lines from the first to the last difference.
fn difference(name: &str, shown: &str, printed: &str) -> String {
    let (shown, printed): (Vec<_>, Vec<_>) = (shown.lines().collect(), printed.lines().collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let before = shown.iter().zip(&printed).take_while(same).count();
    let (shown, printed) = (&shown[before..], &printed[before..]);
    let after = shown
        .iter()
        .rev()
        .zip(printed.iter().rev())
        .take_while(same)
        .count();
    let mut text = format!("{name}, after line {before}:\n");
    for (sign, lines) in [('-', shown), ('+', printed)] {
        for line in &lines[..lines.len() - after] {
            text.extend([sign, ' ']);
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}
