//! Takes the statements out of the pages; each is found by the comment before it.

use std::sync::LazyLock;

static PAGES: LazyLock<String> = LazyLock::new(|| {
    [
        include_str!("../../docs/how-to/fenced-sql.md"),
        include_str!("../../docs/how-to/fenced-object-store.md"),
        include_str!("../../docs/how-to/fenced-redis.md"),
        include_str!("../../docs/choosing/fencing.md"),
        include_str!("../../docs/choosing/need.md"),
    ]
    .concat()
});

/// All of these pages.
pub(crate) fn text() -> &'static str {
    &PAGES
}

/// The blocks that are fenced as `language`.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let open = format!("\n```{language}\n");
    let begins: Vec<usize> = text()
        .match_indices(&open)
        .map(|(at, _)| at + open.len())
        .collect();
    begins
        .into_iter()
        .filter_map(|at| text()[at..].split("\n```").next())
}

/// The SQL below `-- name`, up to the next such line.
pub(crate) fn sql(name: &str) -> String {
    let heading = format!("-- {name}");
    let found = blocks("sql").find_map(|block| {
        let mut lines = block.lines().skip_while(|line| *line != heading);
        lines.next()?;
        let statement: Vec<_> = lines.take_while(|line| !line.starts_with("-- ")).collect();
        Some(statement.join("\n"))
    });
    found.unwrap_or_else(|| panic!("the pages have no SQL named {name}"))
}

/// The pages' only script.
pub(crate) fn lua() -> &'static str {
    blocks("lua").next().expect("the pages have a script")
}
