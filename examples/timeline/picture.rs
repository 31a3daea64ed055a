//! Draws a history: a row for each task, time to the right. As text for a terminal, and as SVG.

use std::fmt::Write as _;
use std::time::Duration;

use crate::record::{History, Interval, What};
use crate::sheet::{INK, LINE, Look, SOFT, Sheet};

/// Columns of a row in the terminal.
const COLUMNS: u32 = 100;

/// The history for a terminal of 110 columns.
pub(crate) fn text(history: &History) -> String {
    let mut text = String::new();
    for task in history.tasks() {
        let row: String = (0..COLUMNS).map(|at| sign(history, task, at)).collect();
        let _ = writeln!(text, "{task}  {row}"); // a `String` takes everything
    }
    let _ = writeln!(
        text,
        "         0 s{:>97}\n\n. waits   # holds   x lost it\n\n{}",
        format!("{:.0} s", history.length.as_secs_f64()),
        summary(history)
    );
    text
}

/// What a task mostly did in one column.
fn sign(history: &History, task: &str, column: u32) -> char {
    let step = history.length / COLUMNS;
    let (from, to) = (step * column, step * (column + 1));
    let of_task = history.intervals.iter().filter(|it| it.task == task);
    let here = of_task.filter(|it| it.from < to && it.to > from);
    let sign = |it: &Interval| match it.what {
        What::Holds if it.outcome == "lost" && it.to <= to => 'x',
        What::Holds => '#',
        What::Waits => '.',
    };
    let part = |it: &&Interval| it.to.min(to).saturating_sub(it.from.max(from));
    here.max_by_key(part).map_or(' ', sign)
}

fn summary(history: &History) -> String {
    let holds = history.of(What::Holds).count();
    let waited = history
        .of(What::Waits)
        .map(|it| it.to.saturating_sub(it.from))
        .max();
    format!(
        "{holds} holds: {} of a free lock, {} granted by the server, {} handed on within an instance; {} lost. Longest wait: {:.1} s",
        history.count(What::Waits, "at_once"),
        history.count(What::Waits, "in_turn"),
        history.count(What::Waits, "handed_on"),
        history.count(What::Holds, "lost"),
        waited.unwrap_or_default().as_secs_f64(),
    )
}

const WIDTH: f64 = 860.0;

/// Where time begins, and where it ends.
const BEGIN: f64 = 64.0;
const END: f64 = 850.0;

/// The first row, from row to row, and half the height of a bar.
const TOP: f64 = 14.0;
const ROW: f64 = 34.0;
const HALF: f64 = 11.0;

/// Of the lines between two holds.
const THICK: &str = " stroke-width=\"1.2\"";

const WAITS: Look = ("#0a3069", "#ddf4ff");
const HOLDS: Look = ("#116329", "#aceebb");
const LOST: Look = ("#82071e", "#ffcecb");

pub(crate) fn svg(history: &History) -> String {
    let mut sheet = Sheet::new(BEGIN, END, history.length);
    let tasks = history.tasks();
    let rows: Vec<(&str, f64)> = tasks.into_iter().zip(0_u32..).map(row).collect();
    let bottom = rows.last().map_or(TOP, |(_, y)| y + HALF + 6.0);
    sheet.axis(history.length, bottom);
    for (task, y) in &rows {
        sheet.text(0.0, *y, "start", INK, task);
        let of_task = history.intervals.iter().filter(|it| it.task == *task);
        of_task.for_each(|interval| sheet.bar(interval, *y));
    }
    let y_of = |task: &str| rows.iter().find(|(it, _)| *it == task).map(|(_, y)| *y);
    for (from, to) in hand_overs(history) {
        if let (Some(above), Some(below)) = (y_of(&from.task), y_of(&to.task)) {
            sheet.hand_over(from, above, to, below);
        }
    }
    sheet.legend(bottom + 40.0);
    sheet.text(0.0, bottom + 66.0, "start", SOFT, &summary(history));
    let title = "A contended minute: six tasks of three instances wait for one lock and hold it in turn; time goes to the right.";
    sheet.finish((WIDTH, bottom + 78.0), "timeline", title)
}

fn row((task, number): (&str, u32)) -> (&str, f64) {
    (task, TOP + f64::from(number) * ROW)
}

/// Each hold with the one after it.
fn hand_overs(history: &History) -> Vec<(&Interval, &Interval)> {
    let mut holds: Vec<&Interval> = history.of(What::Holds).collect();
    holds.sort_by_key(|it| it.from);
    let next = holds.iter().skip(1);
    let both = holds.iter().zip(next).map(|(from, to)| (*from, *to));
    both.filter(|(from, to)| to.from.saturating_sub(from.to) < Duration::from_millis(50))
        .collect()
}

impl Sheet {
    /// Some ten lines, at whole seconds.
    fn axis(&mut self, length: Duration, bottom: f64) {
        let step = Duration::from_secs((length.as_secs() / 10).max(1));
        let mut at = Duration::ZERO;
        while at <= length {
            let x = self.x(at);
            self.line((x, TOP - HALF - 6.0), (x, bottom), LINE, "");
            let text = format!("{} s", at.as_secs());
            self.text(x, bottom + 10.0, "middle", SOFT, &text);
            at += step;
        }
    }

    fn bar(&mut self, interval: &Interval, y: f64) {
        let Interval { from, to, .. } = *interval;
        let (x, width) = (self.x(from), self.x(to) - self.x(from));
        match interval.what {
            What::Waits => self.rect((x, width), y, HALF - 6.0, WAITS),
            What::Holds if interval.outcome == "lost" => self.rect((x, width), y, HALF, LOST),
            What::Holds => self.rect((x, width), y, HALF, HOLDS),
        }
    }

    /// From the end of a hold to the beginning of the next one.
    fn hand_over(&mut self, from: &Interval, above: f64, to: &Interval, below: f64) {
        let (x, to_x) = (self.x(from.to), self.x(to.from));
        let half = if below > above { HALF } else { -HALF };
        let (y, to_y) = (above + half, below - half);
        self.line((x, y), (to_x, to_y), SOFT, THICK);
    }

    fn legend(&mut self, y: f64) {
        let bars = [
            (WAITS, HALF - 6.0, "waits"),
            (HOLDS, HALF, "holds the lock"),
            (
                LOST,
                HALF,
                "holds it, hangs and loses it when its lease is over",
            ),
        ];
        let mut x = 0.0;
        for (look, half, text) in bars {
            self.rect((x, 26.0), y, half, look);
            self.text(x + 34.0, y, "start", INK, text);
            x += 60.0 + 6.4 * f64::from(u32::try_from(text.len()).unwrap_or_default());
        }
        self.line((x, y - HALF), (x + 8.0, y + HALF), SOFT, THICK);
        self.text(x + 18.0, y, "start", INK, "who has it next");
    }
}
