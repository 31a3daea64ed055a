//! A type's name is unique in its crate, so that a search finds one thing. Tests may repeat names.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The sources of each crate, from the root.
pub(crate) const CRATES: [&str; 5] = [
    "dlock-runtime/src",
    "dlock-runtime/cli/src",
    "dlock-macros/src",
    "dlock-macros/grammar/src",
    "benches/src",
];

/// The names that several types of a crate have, with where they are defined.
pub(crate) fn shared(sources: impl Iterator<Item = (PathBuf, String)>) -> Vec<String> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources {
        for name in text.lines().filter_map(defined) {
            let place = path.display().to_string();
            found.entry(name.to_owned()).or_default().push(place);
        }
    }
    let several = found.into_iter().filter(|(_, places)| places.len() > 1);
    several
        .map(|(name, places)| format!("{name}: {}", places.join(", ")))
        .collect()
}

/// The type that a line defines; an associated one is not the crate's.
fn defined(line: &str) -> Option<&str> {
    let is_indented = line.starts_with(' ');
    let line = line.trim_start();
    let line = match line.strip_prefix("pub(") {
        Some(rest) => rest.split_once(") ")?.1,
        None => line.strip_prefix("pub ").unwrap_or(line),
    };
    let (word, rest) = line.split_once(' ')?;
    let defines = match word {
        "struct" | "enum" | "trait" | "union" => true,
        "type" => !is_indented,
        _ => false,
    };
    let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    name.into_iter().next().filter(|_| defines)
}

/// All files of the folder but those of tests.
pub(crate) fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap_or_default();
        if name == "tests" {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    found
}

#[test]
fn names_that_are_shared_are_found() {
    let files = [
        (
            "a.rs",
            "pub(crate) struct Slot<T> {\nimpl Slot {\n    type Item = u8;\n",
        ),
        ("b.rs", "enum Slot {\ntype Item = u8;\nstruct Slots;\n"),
    ];
    let files = files.map(|(path, text)| (path.into(), text.to_owned()));
    assert_eq!(shared(files.into_iter()), ["Slot: a.rs, b.rs"]);
}
