//! Tables for people: fitted to a terminal, and otherwise a line for each row, for `grep` and `awk`.
//!
//! Invariant: whatever the server sent, a cell holds visible characters only, so nobody can move a
//! terminal's cursor by the name of a key.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Row, Table};
use dlock_grammar::visible::push_escaped;

use crate::output;

/// The rows under a header, as text that ends with a line feed. A terminal gets long cells in several
/// lines.
pub(crate) fn render<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let rows = rows.iter().map(<[String; N]>::as_slice);
    draw(&header, rows, size().map(|(width, _)| width), usize::MAX)
}

/// The same for a screen of this width: a line for each row, with long cells cut off by a `…`.
pub(crate) fn render_lines(header: &[&str], rows: &[Vec<String>], width: u16) -> String {
    draw(header, rows.iter().map(Vec::as_slice), Some(width), 1)
}

fn draw<'a>(
    header: &[&str],
    rows: impl Iterator<Item = &'a [String]>,
    width: Option<u16>,
    lines_each: usize,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_truncation_indicator("…");
    let mut first = Row::from(header);
    table.set_header(first.max_height(lines_each).clone());
    for row in rows {
        let mut row = Row::from(row.iter().map(|cell| visible(cell)));
        table.add_row(row.max_height(lines_each).clone());
    }
    if let Some(width) = width {
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
    text.chars().for_each(|c| push_escaped(&mut visible, c));
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
    use super::{about, render, render_lines, visible};
    use std::time::Duration;

    #[test]
    fn a_row_is_a_line_without_a_terminal() {
        let rows = [["item:7".to_owned(), "x".repeat(300)]];
        let text = render(["KEY", "HOLDER"], &rows);
        assert_eq!(text.lines().count(), 2);
        assert!(text.starts_with("KEY     HOLDER\n"), "{text}");
    }

    #[test]
    fn a_row_of_a_screen_is_one_line_however_narrow() {
        let rows = [vec!["one two three four".to_owned(), "7".to_owned()]];
        for width in 1..40 {
            let text = render_lines(&["KEY", "WAITING"], &rows, width);
            assert_eq!(text.lines().count(), 2, "{width}: {text}");
        }
        let text = render_lines(&["KEY", "WAITING"], &rows, 20);
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest.unwrap() <= 20, "{text}");
        assert!(text.contains('…') && text.contains("  7"), "{text}");
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
