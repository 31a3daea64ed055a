//! Tables for people: fitted to a terminal, and otherwise a line for each row, for `grep` and `awk`.
//!
//! Invariant: whatever the server sent, a cell holds visible characters only, so nobody can move a
//! terminal's cursor by the name of a key.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use dlock_grammar::visible::is_visible;

use crate::output;

/// The rows under a header, as text that ends with a line feed.
pub(crate) fn render<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(header);
    for row in rows {
        table.add_row(row.each_ref().map(|cell| visible(cell)));
    }
    if let Some((width, _)) = size() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let mut text = String::new();
    for (at, line) in table.lines().enumerate() {
        let line = line.trim_end();
        if at == 0 && output::has_colours() {
            text.push_str("\x1b[1m");
            text.push_str(line);
            text.push_str("\x1b[0m\n");
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The columns and rows of the terminal at standard output, if it is one.
pub(crate) fn size() -> Option<(u16, u16)> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(stdout).ok()?;
    (size.ws_col > 0).then_some((size.ws_col, size.ws_row))
}

/// The text with its invisible characters escaped.
pub(crate) fn visible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if is_visible(c) {
            visible.push(c);
        } else {
            visible.extend(c.escape_default());
        }
    }
    visible
}

/// A duration to read at a glance: two units at most.
pub(crate) fn about(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{}s", seconds % 60),
        3600..86_400 => format!("{hours}h{}m", minutes % 60),
        _ => format!("{}d{}h", hours / 24, hours % 24),
    }
}

/// The same, or a dash.
pub(crate) fn about_or_dash(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "-".to_owned(), about)
}

#[cfg(test)]
mod tests {
    use super::{about, render, visible};
    use std::time::Duration;

    #[test]
    fn a_row_is_a_line_without_a_terminal() {
        let rows = [["item:7".to_owned(), "x".repeat(300)]];
        let text = render(["KEY", "HOLDER"], &rows);
        assert_eq!(text.lines().count(), 2);
        assert!(text.starts_with("KEY     HOLDER\n"), "{text}");
    }

    #[test]
    fn nothing_moves_the_cursor() {
        assert_eq!(visible("a\x1b[2Jb\u{202e}\n"), "a\\u{1b}[2Jb\\u{202e}\\n");
        let text = render(["KEY"], &[["\x1b]0;x\x07".to_owned()]]);
        assert!(!text.contains('\x1b') && !text.contains('\x07'), "{text}");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_500, "1.5s"),
            (59_999, "59s"),
            (61_000, "1m1s"),
            (3_660_000, "1h1m"),
            (90_000_000, "1d1h"),
        ] {
            assert_eq!(about(Duration::from_millis(millis)), text);
        }
    }
}
