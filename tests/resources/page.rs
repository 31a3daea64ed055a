//! Takes the statements out of the page; each is found by the comment before it.

const PAGE: &str = include_str!("../../docs/guide/which-lock.md");

/// The whole page.
pub(crate) fn text() -> &'static str {
    PAGE
}

/// The blocks that are fenced as `language`.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let open = format!("\n```{language}\n");
    let begins: Vec<usize> = PAGE
        .match_indices(&open)
        .map(|(at, _)| at + open.len())
        .collect();
    begins
        .into_iter()
        .filter_map(|at| PAGE[at..].split("\n```").next())
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
    found.unwrap_or_else(|| panic!("the page has no SQL named {name}"))
}

/// The page's only script.
pub(crate) fn lua() -> &'static str {
    blocks("lua").next().expect("the page has a script")
}
