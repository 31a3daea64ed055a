//! Code on the pages: Rust is a doctest, and a block with another label contains no Rust.
//!
//! Fences must be three backticks at the beginning of a line, followed by one of [`LANGUAGES`] or
//! nothing, so that no other notation hides Rust from this check.

use std::fs;
use std::path::Path;

use crate::page::{Block, Page};

/// Labels of a block; none means text. `rs` is Rust for GitHub but not for rustdoc, so it is not
/// allowed.
const LANGUAGES: [&str; 6] = ["rust", "sh", "sql", "lua", "toml", "text"];

/// What may follow `rust`.
const MARKS: [&str; 2] = ["no_run", "ignore"];

/// The blocks of `page` that have another notation, or hold Rust which no test compiles. `doctests`
/// is the text of the file that includes pages as doctests.
///
/// A page whose blocks can't be doctests has a comment `<!-- tested by PATH -->`, with the path of
/// a test that names the page.
pub(crate) fn uncompiled(page: &Page, doctests: &str, root: &Path) -> Vec<String> {
    let is_tested = has_a_test(page, root);
    let included = match page.path.strip_prefix("docs/") {
        Some(path) => doctests.contains(&format!(": \"{path}\",")),
        None => doctests.contains(&format!("include_str!(\"../{}\")", page.path)),
    };
    let complain = |block: &Block| {
        let why = if !is_known(&block.info) {
            "none of the languages of these pages"
        } else if is_tested {
            return None;
        } else if !is_rust(&block.info) {
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
    complaints.extend(page.prose.iter().filter_map(|(line, text)| {
        let is_fence = text.contains("~~~") || text.contains("```");
        let why = "a fence is three backticks at the beginning of a line";
        is_fence.then(|| format!("{}:{line}: {why}", page.path))
    }));
    if included && let Some(bare) = page.blocks.iter().find(|block| block.info.is_empty()) {
        let (path, line) = (&page.path, bare.line);
        complaints.push(format!("{path}:{line}: a doctest would run it; say `text`"));
    }
    complaints
}

fn is_known(info: &str) -> bool {
    let (language, marks) = info.split_once(',').unwrap_or((info, ""));
    let is_marked = || marks.split(',').all(|mark| MARKS.contains(&mark));
    info.is_empty()
        || LANGUAGES.contains(&language) && (info == language || is_rust(info) && is_marked())
}

fn is_rust(info: &str) -> bool {
    info.split(',').next() == Some("rust")
}

/// Text that no other language on these pages contains.
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
    let doctests = "In: \"IN.md\",";
    let complaints =
        |path: &str, text: &str| uncompiled(&Page::parse(path, text), doctests, &root).len();
    for (path, text) in [
        ("docs/IN.md", "```rust\nfn x() {}\n```"),
        ("docs/IN.md", "```rust,no_run\nfn x() {}\n```"),
        ("docs/IN.md", "```sql\nSELECT 1;\n```"),
        ("docs/OUT.md", "```\nACL SETUSER dlock\n```"),
        ("docs/OUT.md", "```text\n~~~rust\n```"),
        (
            "docs/inside/guarantees.md", // named in that file
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
        ("docs/OUT.md", "~~~rust\nfn x() {}"),
        ("docs/OUT.md", "> ```rust"),
        ("docs/OUT.md", "- ~~~rust"),
        ("docs/OUT.md", "````rust\nfn x() {}\n````"),
        ("docs/OUT.md", "```rs\nfn x() {}\n```"),
        ("docs/IN.md", "```Rust\nfn x() {}\n```"),
        ("docs/IN.md", "```text,rust\nfn x() {}\n```"),
        ("docs/IN.md", "```rust,norun\nfn x() {}\n```"),
        ("docs/IN.md", "```rust no_run\nfn x() {}\n```"),
        (
            "docs/inside/guarantees.md", // a test does not excuse another notation
            "<!-- tested by tests/docs/main.rs -->\n```rs\nfn x() {}\n```",
        ),
        (
            "docs/inside/guarantees.md",
            "<!-- tested by tests/docs/main.rs -->\n~~~rust",
        ),
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
