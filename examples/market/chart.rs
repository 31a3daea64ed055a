//! Draws the table: a panel for each column of figures, a colour for each way.

use charts_rs::{BarChart, ChildChart, LegendCategory, MultiChart, Position, Series};

use crate::error::MarketError;
use crate::load::Size;
use crate::report::Report;

const WIDTH: f32 = 460.0;
const HEIGHT: f32 = 260.0;
const GAP: f32 = 16.0;

/// Space below a title, for the figure on the highest bar.
const HEAD: f32 = 20.0;

type Column = (&'static str, fn(&Report) -> f64);

const COLUMNS: [Column; 6] = [
    ("requests a second", |report| count(report.per_second)),
    ("bought", |report| count(report.bought)),
    ("listed", |report| count(report.listed)),
    ("mean time of a purchase, ms", |report| {
        report.mean.as_secs_f64() * 1000.0
    }),
    ("p99 of it, ms", |report| report.p99.as_secs_f64() * 1000.0),
    ("retries", |report| count(report.retries)),
];

/// Columns of panels.
const ACROSS: u8 = 3;

pub(crate) fn svg(reports: &[Report]) -> Result<String, MarketError> {
    let (mut ways, mut sizes) = (Vec::new(), Vec::new());
    for report in reports {
        if !ways.contains(&report.way) {
            ways.push(report.way);
        }
        if !sizes.contains(&report.size) {
            sizes.push(report.size);
        }
    }
    let mut picture = MultiChart::new();
    picture.background_color = Some("#fff".into());
    for (place, column) in (0_u8..).zip(&COLUMNS) {
        let (x, y) = (f32::from(place % ACROSS), f32::from(place / ACROSS));
        let at = (GAP + x * (WIDTH + GAP), GAP + y * (HEIGHT + GAP));
        let panel = panel(column, reports, &ways, &sizes);
        picture.add(ChildChart::Bar(panel, Some(at)));
    }
    Ok(picture.svg()?)
}

fn panel(
    (title, figure): &Column,
    reports: &[Report],
    ways: &[&'static str],
    sizes: &[Size],
) -> BarChart {
    let series = ways.iter().map(|way| {
        let bars = sizes.iter().map(|size| {
            let run = |report: &&Report| report.way == *way && report.size == *size;
            reports.iter().find(run).map(|report| short(figure(report)))
        });
        let mut series = Series::new((*way).to_owned(), Vec::new());
        series.data = bars.collect(); // `None`: a run that did not finish
        series.label_show = true;
        series
    });
    let sizes = sizes.iter().map(|size| {
        let Size { sellers, buyers } = size;
        format!("{sellers} sell, {buyers} buy")
    });
    let mut chart = BarChart::new(series.collect(), sizes.collect());
    (chart.width, chart.height) = (WIDTH, HEIGHT);
    (*title).clone_into(&mut chart.title.text);
    chart.title.height += HEAD;
    chart.legend.category = LegendCategory::Rect;
    chart.legend.position = Some(Position::Bottom); // at the top it would cover a figure
    chart
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a bar is a few hundred pixels high"
)]
fn count(count: u64) -> f64 {
    count as f64
}

#[allow(
    clippy::cast_possible_truncation,
    reason = "the crate draws in f32; seven digits are more than a label shows"
)]
fn short(figure: f64) -> f32 {
    figure as f32
}
