//! Code on the pages: what is Rust is a doctest, and what says that it is something else is not Rust.

use std::fs;
use std::path::Path;

use crate::page::{Block, Page};

/// Blocks of `page` that hold Rust which no test compiles. `doctests` is the file that includes pages as doctests.
///
/// The way out for a page whose blocks can't be doctests is a comment on it, `<!-- tested by PATH -->`, with the path of a test
/// that names the page.
pub(crate) fn uncompiled(page: &Page, doctests: &str, root: &Path) -> Vec<String> {
    if has_a_test(page, root) {
        return Vec::new();
    }
    let included = doctests.contains(&format!("include_str!(\"../{}\")", page.path));
    let complain = |block: &Block| {
        let why = if !is_rust(&block.info) {
            looks_like_rust(block).then_some("Rust that does not say so")?
        } else if block.info.contains("ignore") {
            "`ignore` hides it from the compiler"
        } else if !included {
            "tests/lib.rs does not include this page"
        } else {
            return None;
        };
        Some(format!("{}:{}: {why}", page.path, block.line))
    };
    let mut complaints: Vec<_> = page.blocks.iter().filter_map(complain).collect();
    if included && let Some(bare) = page.blocks.iter().find(|block| block.info.is_empty()) {
        let (path, line) = (&page.path, bare.line);
        complaints.push(format!("{path}:{line}: a doctest would run it; say `text`"));
    }
    complaints
}

fn is_rust(info: &str) -> bool {
    info.split([',', ' ']).any(|word| word == "rust")
}

/// Words that other languages on these pages do not have.
fn looks_like_rust(block: &Block) -> bool {
    let marks = [
        "async fn ",
        "#[distributed_lock",
        "#[tokio::",
        ".await",
        "use dlock",
        "fn main(",
    ];
    marks.iter().any(|mark| block.text.contains(mark))
}

fn has_a_test(page: &Page, root: &Path) -> bool {
    let comments = page.prose.iter().filter_map(|(_, line)| {
        let path = line.trim().strip_prefix("<!-- tested by ")?;
        path.strip_suffix(" -->")
    });
    let names_it = |test: &str| {
        let test = fs::read_to_string(root.join(test)).unwrap_or_default();
        test.contains(&page.path)
    };
    comments.into_iter().any(names_it)
}

#[test]
fn hidden_rust_is_found() {
    let root = crate::root();
    let doctests = "#[doc = include_str!(\"../docs/IN.md\")]";
    let complaints =
        |path: &str, text: &str| uncompiled(&Page::parse(path, text), doctests, &root).len();
    for (path, text) in [
        ("docs/IN.md", "```rust\nfn x() {}\n```"),
        ("docs/IN.md", "```rust,no_run\nfn x() {}\n```"),
        ("docs/IN.md", "```sql\nSELECT 1;\n```"),
        ("docs/OUT.md", "```\nACL SETUSER dlock\n```"),
        (
            "docs/GUARANTEES.md", // which that file names
            "<!-- tested by tests/docs/main.rs -->\n```rust,ignore\nfn x() {}\n```",
        ),
    ] {
        assert_eq!(complaints(path, text), 0, "{path}: {text}");
    }
    for (path, text) in [
        ("docs/OUT.md", "```rust\nfn x() {}\n```"),
        ("docs/IN.md", "```rust,ignore\nfn x() {}\n```"),
        ("docs/IN.md", "```ignore\nasync fn x() {}\n```"),
        (
            "docs/OUT.md",
            "```text\nlet x = lock.acquire().await?;\n```",
        ),
        ("docs/IN.md", "```\nSELECT 1;\n```"),
        (
            "docs/OUT.md",
            "<!-- tested by tests/docs/main.rs -->\n```rust\nfn x() {}\n```",
        ),
        (
            "docs/OUT.md",
            "<!-- tested by tests/nowhere.rs -->\n```rust\nfn x() {}\n```",
        ),
    ] {
        assert_eq!(complaints(path, text), 1, "{path}: {text}");
    }
}
