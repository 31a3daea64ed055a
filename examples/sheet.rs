//! A white sheet on which an example draws its run as SVG, time to the right. White, so that it looks
//! the same on a page of any colour.

use std::fmt::{Arguments, Write as _};
use std::time::Duration;

/// Between the drawing and the edge of the sheet.
const MARGIN: f64 = 16.0;

pub(crate) const INK: &str = "#24292f";
pub(crate) const SOFT: &str = "#57606a";
pub(crate) const LINE: &str = "#d0d7de";

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
            second: (end - begin) / length.as_secs_f64().max(0.1),
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
