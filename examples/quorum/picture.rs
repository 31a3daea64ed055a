//! Draws a grant: a row for the caller and one for each node. Time goes to the right.
//!
//! The sheet is white, so that it looks the same on a page of any colour.

use std::fmt::Write as _;
use std::time::Duration;

use crate::grant::{Grant, Node};

const MARGIN: f64 = 16.0;
const WIDTH: f64 = 780.0;

/// Where time begins and ends.
const BEGIN: f64 = 72.0;
const END: f64 = 770.0;

/// From row to row, and half the height of a bar.
const ROW: f64 = 46.0;
const HALF: f64 = 11.0;

const INK: &str = "#24292f";
const SOFT: &str = "#57606a";
const LINE: &str = "#d0d7de";
const HELD: &str = "#116329";
const BALLOT: &str = "#0a3069";
const VOTE: &str = "#7d4e00";

pub(crate) fn svg(grant: &Grant) -> String {
    let mut sheet = Sheet {
        body: String::new(),
        millisecond: (END - BEGIN) / millis(grant.until).max(0.1),
    };
    let row = |number: usize| 40.0 + f64::from(u32::try_from(number).unwrap_or(0)) * ROW;
    let bottom = row(grant.nodes.len()) + 36.0;
    sheet.axis(grant.until, row(0) - 20.0, bottom);
    sheet.caller(grant, row(0));
    for (at, node) in grant.nodes.iter().enumerate() {
        sheet.node(
            &format!("node {}", at + 1),
            node,
            grant.granted,
            row(at + 1),
        );
    }
    let x = sheet.x(grant.granted);
    sheet.dashed(x, row(0) - HALF - 4.0, bottom);
    sheet.text(x, row(0) - 26.0, "middle", HELD, "two of three voted");
    sheet.finish(bottom + 22.0)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

struct Sheet {
    body: String,
    /// The width of a millisecond.
    millisecond: f64,
}

impl Sheet {
    fn x(&self, at: Duration) -> f64 {
        BEGIN + millis(at) * self.millisecond
    }

    fn axis(&mut self, until: Duration, top: f64, bottom: f64) {
        let mut at = Duration::ZERO;
        while at <= until {
            let x = self.x(at);
            self.put(format_args!(
                "<path d=\"M{x:.1},{top}L{x:.1},{bottom}\" stroke=\"{LINE}\"/>"
            ));
            let text = format!("{} ms", at.as_millis());
            self.text(x, bottom + 10.0, "middle", SOFT, &text);
            at += Duration::from_millis(1);
        }
    }

    fn caller(&mut self, grant: &Grant, y: f64) {
        self.text(0.0, y, "start", INK, "caller");
        let waits = (SOFT, "#f6f8fa");
        self.bar(waits, "asks", Duration::ZERO, grant.granted, y);
        let holds = (HELD, "#dafbe1");
        self.bar(holds, "has the lock", grant.granted, grant.until, y);
    }

    fn node(&mut self, name: &str, node: &Node, granted: Duration, y: f64) {
        self.text(0.0, y, "start", INK, name);
        if let (Some(sent), Some(reached)) = (node.sent, node.reached) {
            let look = (BALLOT, "#ddf4ff");
            self.bar(look, "ballot under way", sent, reached, y);
        }
        let (Some((voted, epoch)), Some(arrived)) = (node.voted, node.arrived) else {
            return;
        };
        self.bar((VOTE, "#fff8c5"), "vote under way", voted, arrived, y);
        let x = self.x(voted);
        self.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"5\" fill=\"{HELD}\"/>"
        ));
        let is_late = arrived > granted;
        let (what, below) = if is_late {
            (
                ": late, and ours all the same; taken back with the others",
                21.0,
            )
        } else {
            ("", 0.0)
        };
        let x = self.x(granted) + 8.0;
        let text = format!("votes, epoch {epoch}{what}");
        self.text(x, y + below, "start", INK, &text);
    }

    fn bar(&mut self, look: (&str, &str), text: &str, from: Duration, to: Duration, y: f64) {
        let (line, filling) = look;
        let (x, width) = (self.x(from), (self.x(to) - self.x(from)).max(2.0));
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{}\" rx=\"2\" fill=\"{filling}\" stroke=\"{line}\" stroke-width=\"1.5\"/>",
            y - HALF,
            2.0 * HALF
        ));
        if width > 6.5 * count(text) {
            self.text(x + width / 2.0, y, "middle", line, text);
        }
    }

    fn dashed(&mut self, x: f64, top: f64, bottom: f64) {
        self.put(format_args!(
            "<path d=\"M{x:.1},{top:.1}L{x:.1},{bottom:.1}\" stroke=\"{HELD}\" stroke-dasharray=\"4,4\"/>"
        ));
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"0.35em\" font-size=\"80%\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        ));
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.body, "{element}"); // a `String` takes everything
    }

    fn finish(self, height: f64) -> String {
        let (width, height) = (WIDTH + 2.0 * MARGIN, height + 2.0 * MARGIN);
        let (sheet_width, sheet_height) = (width - 1.0, height - 1.0);
        let edge = 0.5 - MARGIN;
        let body = self.body;
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{MARGIN} -{MARGIN} {width:.1} {height:.1}" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="15">
<!-- Drawn by examples/quorum, from a run. -->
<title>A grant by two of three nodes: the caller and each node; time goes to the right.</title>
<rect x="{edge}" y="{edge}" width="{sheet_width:.1}" height="{sheet_height:.1}" rx="8" fill="#fff" stroke="{LINE}"/>
{body}</svg>
"##
        )
    }
}

#[allow(clippy::cast_precision_loss, reason = "a text has some ten characters")]
fn count(text: &str) -> f64 {
    text.len() as f64
}
