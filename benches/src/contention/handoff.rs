//! W4: how much time passes between the end of a turn and the beginning of the next, if a task
//! waits for the key.

use std::time::{Duration, Instant};

use super::fleet::Fleet;
use super::hop;
use super::rivals::{self, Rival};
use crate::Failure;
use crate::chapter::{Chapter, Panel, Series, number, spread};
use crate::lab::Lab;
use crate::progress::Progress;
use crate::rounds::{Rounds, order, ratios};
use crate::statistics::{Quartiles, quantile};

const HEAD: [&str; 6] = [
    "contender",
    "waiters",
    "p50, µs",
    "p50 / one hop",
    "p99, µs",
    "n",
];

/// The number of processes that have the two tasks.
const PLACES: [(&str, usize); 2] = [("2 processes", 2), ("1 process", 1)];

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let (full, quick) = match lab.wire() {
        None => (9, 2),
        Some(_) => (5, 1),
    };
    let rounds = Rounds {
        most: lab.scale.pick(full, quick),
        within: Duration::from_secs(120),
    };
    let messages = lab.scale.pick(200, 100);
    let mut progress = Progress::new("W4");
    // The lower bound comes first: all figures are divided by it.
    let mut lanes = vec![HandoffLane::new(None, PLACES[0])];
    for place in PLACES {
        lanes.extend(
            rivals::ALL
                .iter()
                .map(|rival| HandoffLane::new(Some(rival), place)),
        );
    }
    let (begun, mut round) = (Instant::now(), 0);
    while rounds.another(round, begun) {
        for place in order(lanes.len(), round) {
            if let Some(lane) = lanes.get_mut(place) {
                let name = lane.name();
                progress.tell(&format!("round {} of {}, {name}", round + 1, rounds.most));
                lane.round(lab, messages).await?;
            }
        }
        round += 1;
    }
    let medians: Vec<Vec<f64>> = lanes.iter().map(|lane| lane.medians.clone()).collect();
    let rows = lanes.iter().zip(ratios(&medians, 0));
    let rows = rows.map(|(lane, ratio)| lane.row(ratio)).collect();
    Ok(Chapter {
        title: lab.title("W4: from the end of a turn to the next waiter's, held for 2 ms"),
        notes: vec![format!(
            "Rounds: {round}. No two held the lock at once: every turn was looked at. n counts turns that another task was waiting for; where it is small, most waiters missed the turn, and the \
             figure is of the lucky ones."
        )],
        head: HEAD.to_vec(),
        rows,
        panels: vec![Panel {
            title: lab.title("W4: handoff p50, µs"),
            groups: PLACES.map(|(name, ..)| name.to_owned()).to_vec(),
            series: series(&lanes),
        }],
    })
}

/// A rival with a number of processes; the lower bound has no rival.
struct HandoffLane {
    rival: Option<&'static Rival>,
    place: (&'static str, usize),
    /// The median of each round, in µs.
    medians: Vec<f64>,
    all: Vec<f64>,
}

impl HandoffLane {
    fn new(rival: Option<&'static Rival>, place: (&'static str, usize)) -> Self {
        Self {
            rival,
            place,
            medians: Vec::new(),
            all: Vec::new(),
        }
    }

    fn name(&self) -> &'static str {
        self.rival
            .map_or("one hop: PUBLISH to its subscriber", |rival| rival.name)
    }

    async fn round(&mut self, lab: &Lab, messages: usize) -> Result<(), Failure> {
        let fleet = Fleet {
            processes: self.place.1,
            tasks: 2,
            hold: Duration::from_millis(2),
            think: Duration::from_millis(3),
            ramp: Duration::ZERO,
            length: Duration::from_millis(lab.scale.pick(1200, 800)),
        };
        let times = match self.rival {
            Some(rival) => fleet.run(lab, rival).await?.outcome.passes,
            None => hop::measure(lab, messages).await?,
        };
        // A round in which no task waited has NaN, so that it has no ratio and no median.
        let median = Quartiles::of(times.clone()).map_or(f64::NAN, |of| of.median);
        self.medians.push(median);
        self.all.extend(times);
        self.all.sort_by(f64::total_cmp);
        Ok(())
    }

    fn row(&self, ratio: Option<Quartiles>) -> Vec<String> {
        let medians = self.medians.iter().copied().filter(|it| it.is_finite());
        vec![
            self.name().to_owned(),
            self.place.0.to_owned(),
            spread(Quartiles::of(medians.collect()), 1),
            spread(ratio, 2),
            number(quantile(&self.all, 0.99), 0),
            self.all.len().to_string(),
        ]
    }
}

/// One series for each name, with a bar for each number of processes that was measured.
fn series(lanes: &[HandoffLane]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for lane in lanes {
        let name = lane.name();
        if all.iter().all(|series| series.name != name) {
            let own = |place: &str| {
                let lane = lanes
                    .iter()
                    .find(|it| it.name() == name && it.place.0 == place);
                quantile(&lane?.all, 0.5)
            };
            let bars = PLACES.map(|(place, ..)| own(place)).to_vec();
            let name = name.to_owned();
            all.push(Series { name, bars });
        }
    }
    all
}
