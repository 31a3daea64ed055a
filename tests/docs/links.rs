//! Relative links: the file and the heading must exist. Addresses on the web are not checked.

use std::path::{Component, Path, PathBuf};

use crate::page::{Page, read};

/// The broken links of `page`.
pub(crate) fn broken(page: &Page, root: &Path) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, text) in &page.prose {
        for target in targets(text) {
            if let Some(reason) = check(page, root, &target) {
                complaints.push(format!("{}:{line}: {target}: {reason}", page.path));
            }
        }
    }
    complaints
}

/// The targets of a line's links: `[…](here)`, `![…](here)`, `[…]: here`, `src="here"`.
fn targets(line: &str) -> Vec<String> {
    // Every second piece is inline code.
    let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let upto = |rest: &str, ends: &[char]| rest.split(ends).next().unwrap_or_default().to_owned();
    let inline = line.split("](").skip(1);
    let mut targets: Vec<_> = inline.map(|rest| upto(rest, &[')', ' '])).collect();
    let images = line.split("src=\"").skip(1);
    targets.extend(images.map(|rest| upto(rest, &['"'])));
    if line.starts_with('[')
        && let Some((_, rest)) = line.split_once("]: ")
    {
        targets.push(upto(rest.trim(), &[' ']));
    }
    targets
}

fn check(page: &Page, root: &Path, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let there = beside(&page.path, file);
    if !file.is_empty() && !root.join(&there).exists() {
        return Some("no such file");
    }
    if anchor.is_empty() {
        return None;
    }
    let anchors = if file.is_empty() {
        page.anchors()
    } else {
        read(root, &there)?.anchors()
    };
    (!anchors.iter().any(|known| known == anchor)).then_some("no such heading")
}

/// The path that `file` means on the page `from`, without `.` and `..`.
fn beside(from: &str, file: &str) -> String {
    let mut path = PathBuf::from(from);
    path.pop();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path.to_string_lossy().replace('\\', "/")
}

#[test]
fn broken_links_are_found() {
    let root = crate::root();
    let complaints = |text: &str| broken(&Page::parse("docs/PAGE.md", text), &root).len();
    for good in [
        "[a](inside/guarantees.md)",
        "[a](inside/guarantees.md#what-does-not-hold) and [b](../README.md)",
        "[a](https://example.org/nowhere.md#x)",
        "`[a](NOWHERE.md)`",
        "```text\n[a](NOWHERE.md)\n```",
        "# Why not?\n[a](#why-not)\n# Why not?\n[a](#why-not-1)",
    ] {
        assert_eq!(complaints(good), 0, "{good}");
    }
    for bad in [
        "[a](NOWHERE.md)",
        "[a](inside/guarantees.md#nowhere)",
        "[a](#nowhere)",
        "![a](nowhere.svg)",
        "[a]: NOWHERE.md",
        "<img src=\"nowhere.svg\">",
        "`x` [a](NOWHERE.md) `y`",
    ] {
        assert_eq!(complaints(bad), 1, "{bad}");
    }
}
