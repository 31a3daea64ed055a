//! Tables: each row has as many cells as the first. GitHub silently drops extra cells and leaves
//! missing ones empty.

use crate::page::Page;

/// The rows of `page` that have more or fewer cells than their table's first row.
pub(crate) fn ragged(page: &Page) -> Vec<String> {
    let (mut complaints, mut columns) = (Vec::new(), None);
    for (at, (line, text)) in page.prose.iter().enumerate() {
        if !text.starts_with('|') {
            columns = None;
            continue;
        }
        if at > 0 && page.prose[at - 1].0 + 1 != *line {
            columns = None; // a block ends the table
        }
        let (found, wanted) = (cells(text), *columns.get_or_insert(cells(text)));
        if found != wanted {
            complaints.push(format!("{}:{line}: {found} cells, not {wanted}", page.path));
        }
    }
    complaints
}

/// An escaped bar is part of its cell, also in inline code.
fn cells(row: &str) -> usize {
    row.replace("\\|", "").trim_end().matches('|').count() - 1
}

#[test]
fn ragged_tables_are_found() {
    let complaints = |text: &str| ragged(&Page::parse("docs/PAGE.md", text)).len();
    for good in [
        "| a | b |\n| --- | --- |\n| `x\\|y` | z |",
        "| a |\n\n| a | b |",
    ] {
        assert_eq!(complaints(good), 0, "{good}");
    }
    for bad in ["| a | b |\n| --- | --- |\n| c |", "| a |\n| `x|y` |"] {
        assert_eq!(complaints(bad), 1, "{bad}");
    }
}
