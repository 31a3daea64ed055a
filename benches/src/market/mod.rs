//! W6: the marketplace of "Redis in Action", by the example `market`: what a lock for each item
//! costs compared with a raw lock, and what both gain over WATCH/MULTI/EXEC.
//!
//! `example` is that program; `raw` is a fourth way, only for comparison. Each run is audited as in
//! the example.

#[allow(dead_code, reason = "the example has a command line and a way more")]
mod example;
mod raw;

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_runtime::Config;

use crate::Failure;
use crate::chapter::{Chapter, Panel, Series, number, spread};
use crate::contenders::ours;
use crate::lab::Lab;
use crate::progress;
use crate::rounds::{Rounds, order, ratios};
use crate::statistics::Quartiles;
use example::load::{self, Place, Size};
use example::report::Report;
use example::ways::{Optimistic, PerItem};
use raw::RawPerItem;

/// The way in which the market is run.
#[derive(Debug, Clone, Copy)]
enum MarketKind {
    Raw,
    Ours,
    Watch,
}

const KINDS: [MarketKind; 3] = [MarketKind::Raw, MarketKind::Ours, MarketKind::Watch];

/// Indexes in [`KINDS`] of the divisors.
const RAW: usize = 0;
const WATCH: usize = 2;

const HEAD: [&str; 9] = [
    "sellers/buyers",
    "way",
    "listed + bought, 1/s",
    "/ raw",
    "bought, 1/s",
    "/ WATCH",
    "retries",
    "mean buy, ms",
    "p99 buy, ms",
];

impl MarketKind {
    async fn run(self, place: &Place, size: Size) -> Result<Report, Failure> {
        Ok(match self {
            Self::Raw => load::run::<RawPerItem>(place, size).await?,
            Self::Ours => load::run::<PerItem>(place, size).await?,
            Self::Watch => load::run::<Optimistic>(place, size).await?,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Raw => "raw lock per item",
            Self::Ours => "dlock, lock per item",
            Self::Watch => "WATCH/MULTI/EXEC",
        }
    }
}

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let sizes = [Size::new(1, 1), Size::new(5, 1), Size::new(5, 5)];
    let sizes = lab.scale.pick(&sizes[..], &sizes[2..]);
    let rounds = Rounds {
        most: lab.scale.pick(9, 2),
        within: Duration::from_secs(90),
    };
    let place = Place {
        url: lab.url(),
        locks: ours::patient(Config::new(lab.url())),
        length: Duration::from_secs(lab.scale.pick(2, 1)),
        told: Arc::default(),
    };
    let mut all = Vec::new();
    for size in sizes {
        all.push(Traded::take(&place, *size, rounds).await?);
    }
    progress::clear();
    let series = KINDS.iter().enumerate().map(|(at, kind)| Series {
        name: kind.name().to_owned(),
        bars: all.iter().map(|traded| traded.pace(at)).collect(),
    });
    let done = all.first().map_or(0, Traded::rounds);
    Ok(Chapter {
        title: "W6: the marketplace, a lock for each item".to_owned(),
        notes: vec![format!(
            "Rounds of {} s: {done}, each audited: every item in one place, none sold twice, no cent appeared or vanished.",
            place.length.as_secs()
        )],
        head: HEAD.to_vec(),
        rows: all.iter().flat_map(Traded::rows).collect(),
        panels: vec![Panel {
            title: "W6: listed and bought, a second".to_owned(),
            groups: sizes
                .iter()
                .map(|size| format!("{size} sell/buy"))
                .collect(),
            series: series.collect(),
        }],
    })
}

/// All rounds of one size, by kind.
struct Traded {
    size: Size,
    seconds: f64,
    lanes: Vec<(MarketKind, Vec<Report>)>,
}

impl Traded {
    async fn take(place: &Place, size: Size, rounds: Rounds) -> Result<Self, Failure> {
        let mut lanes: Vec<_> = KINDS.map(|kind| (kind, Vec::new())).into();
        let (begun, mut round) = (Instant::now(), 0);
        while rounds.another(round, begun) {
            for at in order(lanes.len(), round) {
                if let Some((kind, reports)) = lanes.get_mut(at) {
                    reports.push(kind.run(place, size).await?);
                }
            }
            round += 1;
        }
        let seconds = place.length.as_secs_f64();
        Ok(Self {
            size,
            seconds,
            lanes,
        })
    }

    fn rounds(&self) -> usize {
        self.lanes.first().map_or(0, |(_, reports)| reports.len())
    }

    fn figures(&self, figure: impl Fn(&Report) -> f64) -> Vec<Vec<f64>> {
        let lanes = self.lanes.iter();
        lanes
            .map(|(_, reports)| reports.iter().map(&figure).collect())
            .collect()
    }

    /// Items listed and bought per second, for each kind and round.
    fn sums(&self) -> Vec<Vec<f64>> {
        self.figures(|report| count(report.listed + report.bought) / self.seconds)
    }

    /// The median of one kind.
    fn pace(&self, at: usize) -> Option<f64> {
        let sums = self.sums().into_iter().nth(at)?;
        Quartiles::of(sums).map(|of| of.median)
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let (sums, bought) = (
            self.sums(),
            self.figures(|report| count(report.bought) / self.seconds),
        );
        let of_raw = ratios(&sums, RAW);
        let of_watch = ratios(&bought, WATCH);
        let lanes = self.lanes.iter().zip(sums).zip(bought);
        let lanes = lanes.zip(of_raw.into_iter().zip(of_watch));
        lanes
            .map(|((((kind, reports), sums), bought), (of_raw, of_watch))| {
                let middle = |figure: fn(&Report) -> f64| {
                    let figures = reports.iter().map(figure).collect();
                    Quartiles::of(figures).map(|of| of.median)
                };
                vec![
                    self.size.to_string(),
                    kind.name().to_owned(),
                    spread(Quartiles::of(sums), 0),
                    spread(of_raw, 2),
                    spread(Quartiles::of(bought), 0),
                    spread(of_watch, 2),
                    number(middle(|report| count(report.retries)), 0),
                    number(middle(|report| report.mean.as_secs_f64() * 1e3), 2),
                    number(middle(|report| report.p99.as_secs_f64() * 1e3), 2),
                ]
            })
            .collect()
    }
}

#[allow(clippy::cast_precision_loss, reason = "told with three digits")]
fn count(count: u64) -> f64 {
    count as f64
}
