//! Draws the chapters' panels as one picture, two in a row.

use charts_rs::{BarChart, ChildChart, LegendCategory, MultiChart, Position};

use crate::Failure;
use crate::chapter::{Chapter, Panel};

const WIDTH: f32 = 640.0;
const HEIGHT: f32 = 300.0;
const GAP: f32 = 16.0;

/// Space below a title, for the figure on the highest bar.
const HEAD: f32 = 20.0;

/// Panels in a row.
const ACROSS: u8 = 2;

/// The palette's colours by the beginning of a contender's name, so that it has the same colour
/// everywhere.
const COLOURS: [(&str, usize); 12] = [
    ("raw, a second time", 5),
    ("raw over TLS", 6),
    ("raw", 0),
    ("rslock, delay", 6),
    ("rslock", 2),
    ("dlock, background", 4),
    ("dlock, each turn", 4),
    ("dlock, fair", 3),
    ("dlock over TLS", 4),
    ("dlock", 1),
    ("one hop", 7),
    ("WATCH", 3),
];

pub(crate) fn svg(chapters: &[Chapter]) -> Result<String, Failure> {
    let mut picture = MultiChart::new();
    picture.background_color = Some("#fff".into());
    let panels = chapters.iter().flat_map(|chapter| &chapter.panels);
    for (place, panel) in (0_u8..).zip(panels) {
        let (x, y) = (f32::from(place % ACROSS), f32::from(place / ACROSS));
        let at = (GAP + x * (WIDTH + GAP), GAP + y * (HEIGHT + GAP));
        picture.add(ChildChart::Bar(bars(panel), Some(at)));
    }
    Ok(picture.svg()?)
}

fn bars(panel: &Panel) -> BarChart {
    let series = panel.series.iter().map(|own| {
        let mut series = charts_rs::Series::new(own.name.clone(), Vec::new());
        series.data = own.bars.iter().map(|bar| bar.map(short)).collect();
        series.label_show = true;
        let colour = COLOURS
            .iter()
            .find(|(begin, _)| own.name.starts_with(begin));
        series.index = colour.map(|(_, colour)| *colour);
        series
    });
    let mut chart = BarChart::new(series.collect(), panel.groups.clone());
    (chart.width, chart.height) = (WIDTH, HEIGHT);
    chart.title.text.clone_from(&panel.title);
    chart.title.height += HEAD;
    chart.legend.category = LegendCategory::Rect;
    chart.legend.position = Some(Position::Bottom); // at the top it would cover a figure
    chart
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the crate draws in f32; seven digits are more than a label shows"
)]
fn short(figure: f64) -> f32 {
    let digits = if figure < 100.0 { 100.0 } else { 1.0 };
    ((figure * digits).round() / digits) as f32
}

#[cfg(test)]
mod tests;
