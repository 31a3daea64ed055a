//! Draws a grant: a row for the caller and one for each node, and a legend. Time goes to the right.

use std::time::Duration;

use crate::grant::{Grant, Node};
use crate::sheet::{INK, LEGEND_ROW, LINE, Look, SOFT, Sheet};

const WIDTH: f64 = 780.0;

/// Where time begins and ends.
const BEGIN: f64 = 72.0;
const END: f64 = 770.0;

/// From row to row, and half the height of a bar.
const ROW: f64 = 46.0;
const HALF: f64 = 11.0;

const HELD: &str = "#116329";

const ASKS: Look = (SOFT, "#f6f8fa");
const HOLDS: Look = (HELD, "#dafbe1");
const BALLOT: Look = ("#0a3069", "#ddf4ff");
const VOTE: Look = ("#7d4e00", "#fff8c5");

/// The columns of the legend.
const LEGEND: [f64; 2] = [0.0, 270.0];

pub(crate) fn svg(grant: &Grant) -> String {
    let mut sheet = Sheet::new(BEGIN, END, grant.until);
    let row = |number: usize| 40.0 + f64::from(u32::try_from(number).unwrap_or(0)) * ROW;
    let bottom = row(grant.nodes.len()) + 36.0;
    sheet.axis(grant.until, row(0) - 20.0, bottom);
    sheet.caller(grant, row(0));
    let votes = grant.nodes.iter().filter_map(|node| node.voted);
    let lowest = votes.map(|(_, epoch)| epoch).min().unwrap_or(0);
    for (at, node) in grant.nodes.iter().enumerate() {
        let name = format!("node {}", at + 1);
        sheet.node(&name, node, lowest, grant.granted, row(at + 1));
    }
    let x = sheet.x(grant.granted);
    sheet.dashed(x, row(0) - HALF - 4.0, bottom);
    sheet.text(x, row(0) - 26.0, "middle", HELD, "granted");
    let legend = bottom + 42.0;
    sheet.legend(legend);
    let title = "A grant by two of three nodes: the caller and each node; time goes to the right.";
    let height = legend + 2.0 * LEGEND_ROW + 6.0;
    sheet.finish((WIDTH, height), "quorum", title)
}

impl Sheet {
    fn axis(&mut self, until: Duration, top: f64, bottom: f64) {
        let mut at = Duration::ZERO;
        while at <= until {
            let x = self.x(at);
            self.line((x, top), (x, bottom), LINE, "");
            let text = format!("{} ms", at.as_millis());
            self.text(x, bottom + 10.0, "middle", SOFT, &text);
            at += Duration::from_millis(1);
        }
    }

    fn caller(&mut self, grant: &Grant, y: f64) {
        self.text(0.0, y, "start", INK, "caller");
        self.bar(ASKS, "asks", Duration::ZERO, grant.granted, y);
        self.bar(HOLDS, "holds the lock", grant.granted, grant.until, y);
    }

    /// A row for a node. Its epoch is drawn as `n` and what is above the `lowest` one: it has 16
    /// digits.
    fn node(&mut self, name: &str, node: &Node, lowest: u64, granted: Duration, y: f64) {
        self.text(0.0, y, "start", INK, name);
        if let (Some(sent), Some(reached)) = (node.sent, node.reached) {
            self.bar(BALLOT, "ballot", sent, reached, y);
        }
        let (Some((voted, epoch)), Some(arrived)) = (node.voted, node.arrived) else {
            return;
        };
        self.bar(VOTE, "vote", voted, arrived, y);
        self.mark(self.x(voted), y);
        let epoch = match epoch.saturating_sub(lowest) {
            0 => "n".to_owned(),
            above => format!("n + {above}"),
        };
        let is_late = arrived > granted;
        let (what, below) = if is_late {
            (": too late to count, and released with the others", 21.0)
        } else {
            ("", 0.0)
        };
        let x = self.x(granted) + 8.0;
        let text = format!("votes with epoch {epoch}{what}");
        self.text(x, y + below, "start", INK, &text);
    }

    fn legend(&mut self, top: f64) {
        let [left, right] = LEGEND.map(|x| (x, top));
        self.explain_bar(left, 0, BALLOT, "ballot on its way to the node");
        self.explain_bar(left, 1, VOTE, "vote on its way to the caller");
        let (x, y) = self.explain(right, 0, "the node votes");
        self.mark(x, y);
        let (x, y) = self.explain(right, 1, "the second of three votes has arrived");
        self.dashed(x, y - 8.0, y + 8.0);
        let epochs =
            "n stands for a number of 16 digits. Two votes with the same number grant the lock.";
        self.text(0.0, top + 2.0 * LEGEND_ROW, "start", INK, epochs);
    }

    fn bar(&mut self, look: Look, text: &str, from: Duration, to: Duration, y: f64) {
        let (x, width) = (self.x(from), (self.x(to) - self.x(from)).max(2.0));
        self.rect((x, width), y, HALF, look);
        if width > 6.5 * count(text) {
            self.text(x + width / 2.0, y, "middle", look.0, text);
        }
    }

    /// A vote.
    fn mark(&mut self, x: f64, y: f64) {
        self.put(format_args!(
            "<circle cx=\"{x:.1}\" cy=\"{y}\" r=\"5\" fill=\"{HELD}\"/>"
        ));
    }

    fn dashed(&mut self, x: f64, top: f64, bottom: f64) {
        self.line((x, top), (x, bottom), HELD, " stroke-dasharray=\"4,4\"");
    }
}

#[allow(clippy::cast_precision_loss, reason = "a text has some ten characters")]
fn count(text: &str) -> f64 {
    text.len() as f64
}
