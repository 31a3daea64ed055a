//! W3: eight processes of eight tasks, one key, and no work while it is held.

use std::time::{Duration, Instant};

use super::fleet::{Fleet, FleetRun};
use super::rivals::{self, Rival};
use crate::Failure;
use crate::chapter::{Chapter, Panel, Series, number, spread};
use crate::lab::Lab;
use crate::progress::Progress;
use crate::rounds::{Rounds, order, ratios};
use crate::statistics::{Quartiles, quantile, real};

const HEAD: [&str; 9] = [
    "contender",
    "handoffs/s",
    "handoffs / raw",
    "acquisitions/s",
    "wait p50 / p99 / max, ms",
    "Jain",
    "fewest of a task",
    "commands an acquisition",
    "n",
];

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let fleet = Fleet {
        processes: 8,
        tasks: 64,
        hold: Duration::ZERO,
        think: Duration::ZERO,
        ramp: Duration::ZERO,
        length: Duration::from_millis(lab.scale.pick(1000, 600)),
    };
    let rounds = Rounds {
        most: lab.scale.pick(if lab.wire().is_some() { 5 } else { 9 }, 2),
        within: Duration::from_secs(90),
    };
    let mut progress = Progress::new("W3");
    let mut lanes: Vec<ThroughputLane> = rivals::ALL.iter().map(ThroughputLane::new).collect();
    let (begun, mut round) = (Instant::now(), 0);
    while rounds.another(round, begun) {
        for place in order(lanes.len(), round) {
            if let Some(lane) = lanes.get_mut(place) {
                let name = lane.rival.name;
                progress.tell(&format!("round {} of {}, {name}", round + 1, rounds.most));
                lane.runs.push(fleet.run(lab, lane.rival).await?);
            }
        }
        round += 1;
    }
    let seconds = fleet.length.as_secs_f64();
    let handoffs: Vec<Vec<f64>> = lanes.iter().map(|lane| lane.handoffs(seconds)).collect();
    let rows = lanes.iter().zip(ratios(&handoffs, 0));
    Ok(Chapter {
        title: lab.title("W3: one key, 8 processes of 8 tasks, nothing to do while they have it"),
        notes: vec![format!(
            "Rounds of {seconds} s: {round}. dlock's fencing tokens grew from each turn to the next, and no two held the lock at once; but such \
             a turn is over in less than a microsecond, so an overlap would rather show in W4."
        )],
        head: HEAD.to_vec(),
        rows: rows.map(|(lane, ratio)| lane.row(ratio, seconds)).collect(),
        panels: vec![Panel {
            title: lab.title("W3: handoffs a second"),
            groups: vec!["8 processes of 8 tasks".to_owned()],
            series: lanes.iter().map(|lane| lane.series(seconds)).collect(),
        }],
    })
}

/// One rival's runs, one for each round.
struct ThroughputLane {
    rival: &'static Rival,
    runs: Vec<FleetRun>,
}

impl ThroughputLane {
    fn new(rival: &'static Rival) -> Self {
        let runs = Vec::new();
        Self { rival, runs }
    }

    fn handoffs(&self, seconds: f64) -> Vec<f64> {
        let runs = self.runs.iter();
        runs.map(|run| real(run.outcome.handoffs) / seconds)
            .collect()
    }

    /// The median of a figure over the rounds.
    fn middle(&self, figure: impl FnMut(&FleetRun) -> Option<f64>) -> Option<f64> {
        let figures = self.runs.iter().filter_map(figure).collect();
        Quartiles::of(figures).map(|of| of.median)
    }

    fn row(&self, ratio: Option<Quartiles>, seconds: f64) -> Vec<String> {
        let wait = |part| {
            let wait = self.middle(|run| quantile(&run.outcome.waits, part));
            number(wait, 2)
        };
        let waits = [0.5, 0.99, 1.0].map(wait).join(" / ");
        let acquired = |run: &FleetRun| Some(real(run.outcome.acquisitions) / seconds);
        let least = |run: &FleetRun| run.outcome.shares.iter().copied().reduce(f64::min);
        let commands = |run: &FleetRun| {
            let all = real(usize::try_from(run.work.calls(self.rival.sends)).ok()?);
            (run.outcome.all > 0).then(|| all / real(run.outcome.all))
        };
        let samples: usize = self.runs.iter().map(|run| run.outcome.handoffs).sum();
        vec![
            self.rival.name.to_owned(),
            spread(Quartiles::of(self.handoffs(seconds)), 0),
            spread(ratio, 2),
            number(self.middle(acquired), 0),
            waits,
            number(self.middle(|run| run.outcome.fairness()), 3),
            number(self.middle(least), 0),
            number(self.middle(commands), 2),
            samples.to_string(),
        ]
    }

    fn series(&self, seconds: f64) -> Series {
        let handoffs = Quartiles::of(self.handoffs(seconds));
        Series {
            name: self.rival.name.to_owned(),
            bars: vec![handoffs.map(|of| of.median)],
        }
    }
}
