//! A white sheet on which an example draws its run as SVG, time to the right. White, so that it looks
//! the same on a page of any colour. A picture explains its colours and marks in a legend below.

use std::fmt::{Arguments, Write as _};
use std::time::Duration;

/// Between the drawing and the edge of the sheet.
const MARGIN: f64 = 16.0;

pub(crate) const INK: &str = "#24292f";
pub(crate) const SOFT: &str = "#57606a";
pub(crate) const LINE: &str = "#d0d7de";

/// Line and filling of a bar.
pub(crate) type Look = (&'static str, &'static str);

/// From row to row of a legend, and the width of its samples.
pub(crate) const LEGEND_ROW: f64 = 24.0;
const SAMPLE: f64 = 22.0;

/// What is drawn so far.
pub(crate) struct Sheet {
    body: String,
    /// Where time begins.
    begin: f64,
    /// The width of a second.
    second: f64,
}

impl Sheet {
    /// `length` goes from `begin` to `end`.
    pub(crate) fn new(begin: f64, end: f64, length: Duration) -> Self {
        Self {
            body: String::new(),
            begin,
            second: (end - begin) / length.as_secs_f64().max(0.001),
        }
    }

    pub(crate) fn x(&self, at: Duration) -> f64 {
        self.begin + at.as_secs_f64() * self.second
    }

    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, style: &str) {
        let ((x, y), (to_x, to_y)) = (from, to);
        self.put(format_args!(
            "<path d=\"M{x:.1},{y:.1}L{to_x:.1},{to_y:.1}\" stroke=\"{colour}\"{style}/>"
        ));
    }

    pub(crate) fn text(&mut self, x: f64, y: f64, anchor: &str, colour: &str, text: &str) {
        self.put(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" dy=\"0.35em\" font-size=\"80%\" text-anchor=\"{anchor}\" fill=\"{colour}\">{text}</text>"
        ));
    }

    /// A bar around the height `y`. The shortest are 1 px wide, so that they are seen.
    pub(crate) fn rect(
        &mut self,
        (x, width): (f64, f64),
        y: f64,
        half: f64,
        (line, filling): Look,
    ) {
        let (top, height, width) = (y - half, 2.0 * half, width.max(1.0));
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"2\" fill=\"{filling}\" stroke=\"{line}\"/>"
        ));
    }

    /// Writes what the sample in this row of a column of the legend means; returns the sample's middle.
    pub(crate) fn explain(&mut self, (x, top): (f64, f64), row: u32, text: &str) -> (f64, f64) {
        let y = top + f64::from(row) * LEGEND_ROW;
        self.text(x + SAMPLE + 8.0, y, "start", INK, text);
        (x + SAMPLE / 2.0, y)
    }

    /// Explains a bar.
    pub(crate) fn explain_bar(&mut self, column: (f64, f64), row: u32, look: Look, text: &str) {
        let (x, y) = self.explain(column, row, text);
        self.rect((x - SAMPLE / 2.0, SAMPLE), y, 7.0, look);
    }

    pub(crate) fn put(&mut self, element: Arguments<'_>) {
        let _ = writeln!(self.body, "{element}"); // a `String` takes everything
    }

    /// The picture, `width` and `height` without its margin. The second line says to `tests/pictures`
    /// where it is from.
    pub(crate) fn finish(self, (width, height): (f64, f64), example: &str, title: &str) -> String {
        let (width, height) = (width + 2.0 * MARGIN, height + 2.0 * MARGIN);
        let (sheet_width, sheet_height) = (width - 1.0, height - 1.0);
        let edge = 0.5 - MARGIN;
        let body = self.body;
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="-{MARGIN} -{MARGIN} {width:.1} {height:.1}" font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="15">
<!-- Drawn by examples/{example}, from a run. -->
<title>{title}</title>
<rect x="{edge}" y="{edge}" width="{sheet_width:.1}" height="{sheet_height:.1}" rx="8" fill="#fff" stroke="{LINE}"/>
{body}</svg>
"##
        )
    }
}
