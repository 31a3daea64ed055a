//! The samples of each contender with each number of waiters or locks, round by round, and the
//! figures from them.

use crate::chapter::{Series, number, spread};
use crate::rounds::ratios;
use crate::statistics::Quartiles;

/// The figures of one block or run, for a cycle or a handoff. NaN if there was none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// µs.
    pub(super) time: f64,
    /// The server's CPU time, µs.
    pub(super) server: f64,
    /// Commands that the client sent.
    pub(super) commands: f64,
    /// The number of cycles or handoffs that the sample is the mean of.
    pub(super) count: usize,
}

/// A contender with one number of waiters or of other locks.
struct Lane {
    with: String,
    contender: &'static str,
    samples: Vec<Sample>,
}

pub(super) struct Lanes(Vec<Lane>);

impl Lanes {
    /// One lane for each contender and number; `with` describes the numbers, lowest first.
    pub(super) fn new(with: &[String], contenders: &[&'static str]) -> Self {
        let all = with.iter().flat_map(|with| {
            contenders.iter().map(|&contender| Lane {
                with: with.clone(),
                contender,
                samples: Vec::new(),
            })
        });
        Self(all.collect())
    }

    pub(super) fn add(&mut self, place: usize, sample: Sample) {
        if let Some(lane) = self.0.get_mut(place) {
            lane.samples.push(sample);
        }
    }

    pub(super) fn rounds(&self) -> usize {
        self.0.first().map_or(0, |lane| lane.samples.len())
    }

    /// The numbers, each once.
    pub(super) fn groups(&self) -> Vec<String> {
        let mut groups: Vec<String> = self.0.iter().map(|lane| lane.with.clone()).collect();
        groups.dedup();
        groups
    }

    /// Divided by the same contender's figure with the lowest number, in the same round.
    fn ratio(&self, lane: &Lane, figure: fn(&Sample) -> f64) -> Option<Quartiles> {
        let fewest = self.0.iter().find(|it| it.contender == lane.contender)?;
        let both = [fewest, lane].map(|lane| lane.figures(figure));
        *ratios(&both, 0).last()?
    }

    pub(super) fn rows(&self) -> Vec<Vec<String>> {
        let row = |lane: &Lane| {
            let middle = |figure| spread(Quartiles::of(lane.finite(figure)), 1);
            let ratio = |figure| spread(self.ratio(lane, figure), 2);
            let commands = Quartiles::of(lane.finite(Sample::commands));
            let count: usize = lane.samples.iter().map(|sample| sample.count).sum();
            vec![
                lane.with.clone(),
                lane.contender.to_owned(),
                middle(Sample::time),
                ratio(Sample::time),
                middle(Sample::server),
                ratio(Sample::server),
                number(commands.map(|of| of.median), 2),
                ratio(Sample::commands),
                count.to_string(),
            ]
        };
        self.0.iter().map(row).collect()
    }

    /// The times of each contender, with a bar for each number.
    pub(super) fn series(&self) -> Vec<Series> {
        let groups = self.groups();
        let contenders = self
            .0
            .iter()
            .take_while(|lane| groups.first() == Some(&lane.with));
        let bars = |contender| {
            let own = self
                .0
                .iter()
                .filter(move |lane| lane.contender == contender);
            own.map(|lane| Some(self.ratio(lane, Sample::time)?.median))
        };
        contenders
            .map(|lane| Series {
                name: lane.contender.to_owned(),
                bars: bars(lane.contender).collect(),
            })
            .collect()
    }
}

impl Lane {
    fn figures(&self, figure: fn(&Sample) -> f64) -> Vec<f64> {
        self.samples.iter().map(figure).collect()
    }

    fn finite(&self, figure: fn(&Sample) -> f64) -> Vec<f64> {
        let figures = self.figures(figure).into_iter();
        figures.filter(|figure| figure.is_finite()).collect()
    }
}

impl Sample {
    fn time(&self) -> f64 {
        self.time
    }

    fn server(&self) -> f64 {
        self.server
    }

    fn commands(&self) -> f64 {
        self.commands
    }
}

#[cfg(test)]
mod tests;
