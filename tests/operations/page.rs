//! Parses the pages: sections, tables, and shell blocks whose comments say what they print.

use std::process::Command;

use dlock_harness::RedisServer;

const PAGES: [&str; 6] = [
    include_str!("../../docs/operate/troubleshooting.md"),
    include_str!("../../docs/operate/server.md"),
    include_str!("../../docs/operate/capacity.md"),
    include_str!("../../docs/operate/alerts.md"),
    include_str!("../../docs/reference/errors.md"),
    include_str!("../../docs/reference/metrics.md"),
];

/// The text under a heading, up to the next one of its page. No two pages share a heading.
pub(crate) fn section(heading: &str) -> &'static str {
    let heading = format!("\n## {heading}\n");
    let found: Vec<_> = PAGES
        .iter()
        .filter_map(|page| page.split_once(&heading))
        .collect();
    let [(_, from)] = found[..] else {
        panic!("{heading}: {} sections", found.len());
    };
    from.split("\n## ").next().unwrap()
}

/// The rows of a section's tables, cell by cell, without heads.
pub(crate) fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let lines: Vec<&str> = section(heading).lines().collect();
    let is_row = |at: usize| {
        let is_head = lines.get(at + 1).is_some_and(|it| it.starts_with("| ---"));
        lines[at].starts_with('|') && !lines[at].starts_with("| ---") && !is_head
    };
    let cells = |line: &'static str| line.trim_matches('|').split(" | ").map(str::trim).collect();
    let rows = (0..lines.len()).filter(|at| is_row(*at));
    rows.map(|at| cells(lines[at])).collect()
}

/// The texts in backticks.
pub(crate) fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// The lines of a section's nth shell block.
pub(crate) fn block(heading: &str, nth: usize) -> Vec<&'static str> {
    let block = section(heading)
        .split("```sh\n")
        .nth(nth + 1)
        .expect(heading);
    block.split("```").next().unwrap().lines().collect()
}

/// The lines of another page's first shell block.
pub(crate) fn first_block(page: &'static str) -> Vec<&'static str> {
    let (_, from) = page.split_once("```sh\n").expect("a shell block");
    from.split("```").next().unwrap().lines().collect()
}

/// Runs the lines with `redis-cli` on this server, in one shell, and panics if one prints something
/// else than its comment says.
pub(crate) async fn run(lines: &[&str], server: &RedisServer) {
    const END: &str = "@@ end of line";
    let (commands, expected): (Vec<_>, Vec<_>) = lines
        .iter()
        .map(|line| line.rsplit_once("  # ").unwrap_or((line, "")))
        .unzip();
    let here = format!("redis-cli -p {} ", server.port());
    let script: Vec<String> = commands
        .iter()
        .map(|command| format!("{}\necho '{END}'\n", command.replace("redis-cli ", &here)))
        .collect();
    let script = script.concat();
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]);
    let ran = tokio::task::spawn_blocking(move || shell.output());
    let ran = ran.await.unwrap().unwrap();
    let (printed, errors) = (
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr),
    );
    assert_eq!(errors, "", "{script}");
    let printed: Vec<&str> = printed.split_terminator(&format!("{END}\n")).collect();
    assert_eq!(printed.len(), commands.len(), "{printed:?}");
    for ((command, expected), printed) in commands.iter().zip(&expected).zip(printed) {
        let fits = printed.lines().all(|line| fits(expected, line));
        let says_something = printed.trim().is_empty() == expected.is_empty();
        assert!(
            fits && says_something,
            "{command}: {expected:?}, not {printed:?}"
        );
    }
}

/// Whether a line is as expected. `<…>` stands for any text that is not empty and has no bar; with
/// `ms`, `µs` or a number of things in it, for digits.
fn fits(expected: &str, line: &str) -> bool {
    let Some((before, rest)) = expected.split_once('<') else {
        return expected == line;
    };
    let (what, after) = rest.split_once('>').expect("a closed place");
    let is_number = ["ms", "µs", "pid", "processes"]
        .iter()
        .any(|unit| what.split(' ').any(|word| word == *unit));
    let Some(rest) = line.strip_prefix(before) else {
        return false;
    };
    let end = rest.find('|').unwrap_or(rest.len());
    let value = &rest[..end];
    let is_fit = !value.is_empty() && (!is_number || value.bytes().all(|it| it.is_ascii_digit()));
    is_fit && fits(after, &rest[end..])
}
