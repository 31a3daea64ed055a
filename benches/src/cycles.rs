//! W1 and W2: taking and giving back a lock that nobody else wants, by one task, and by many at once with a key each.

use std::time::{Duration, Instant};

use dlock_runtime::LockPool;

use crate::Failure;
use crate::chapter::{Chapter, Panel, Series, number, spread};
use crate::contenders::ours::{self, Background, Confirmed};
use crate::contenders::peer::{self, Peer};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Block, Contender};
use crate::lab::{Control, Lab};
use crate::progress::Progress;
use crate::rounds::{Rounds, order, ratios};
use crate::server_cost::Work;
use crate::statistics::{Quartiles, real};

/// W1.
pub(crate) async fn alone(lab: &Lab) -> Result<Chapter, Failure> {
    let contenders = contenders(lab).await?;
    let block = Block {
        tasks: 1,
        cycles: 100,
    };
    let rounds = Rounds {
        most: lab.scale.pick(60, 20),
        within: Duration::from_secs(lab.scale.pick(60, 5)),
    };
    let progress = Progress::new("W1");
    let measured = Measured::take(lab, &contenders, block, rounds, progress).await?;
    let times = Panel {
        title: "W1: time of a cycle, raw = 1".to_owned(),
        groups: vec!["1 task".to_owned()],
        series: series(&contenders, &[measured.medians()]),
    };
    Ok(Chapter {
        title: "W1: acquire and release, one task".to_owned(),
        notes: vec![format!(
            "{} rounds of {} cycles; the time of a cycle is the median of its block.",
            measured.rounds(),
            block.cycles
        )],
        head: HEAD.to_vec(),
        rows: measured.rows(),
        panels: vec![times],
    })
}

const HEAD: [&str; 7] = [
    "contender",
    "time / raw",
    "time of a cycle, µs",
    "client CPU, µs",
    "server CPU, µs",
    "server CPU / raw",
    "commands",
];

/// The first is what the others are divided by.
async fn contenders(lab: &Lab) -> Result<Vec<Contender>, Failure> {
    let url = lab.url();
    let raw = Raw::connect(&url).await?;
    let again = Raw::connect(&url).await?;
    let pool = LockPool::connect(url.as_str()).await?;
    Ok(vec![
        Contender::new("raw", raw::SENDS, raw),
        Contender::new("raw, a second time", raw::SENDS, again),
        Contender::new("rslock", peer::SENDS, Peer::new(&url)),
        Contender::new("dlock", ours::SENDS, Confirmed(pool.clone())),
        Contender::new("dlock, background", ours::SENDS, Background(pool)),
    ])
}

/// One of each contender, one bar in each group.
fn series(contenders: &[Contender], groups: &[Vec<Option<f64>>]) -> Vec<Series> {
    let own = |place: usize| groups.iter().map(move |group| group.get(place).copied()?);
    let named = contenders.iter().enumerate();
    named
        .map(|(place, contender)| Series {
            name: contender.name.to_owned(),
            bars: own(place).collect(),
        })
        .collect()
}

/// All rounds of one size of block.
struct Measured<'a> {
    block: Block,
    lanes: Vec<Lane<'a>>,
}

/// What is measured of one contender.
struct Lane<'a> {
    contender: &'a Contender,
    /// Of a cycle, in µs, round by round.
    times: Vec<f64>,
    client: Duration,
    server: Work,
}

impl<'a> Measured<'a> {
    async fn take(
        lab: &Lab,
        contenders: &'a [Contender],
        block: Block,
        rounds: Rounds,
        mut progress: Progress,
    ) -> Result<Self, Failure> {
        let mut control = lab.control().await?;
        // Connections, scripts and memory are there before the first round.
        for contender in contenders {
            contender.run(block).await?;
        }
        let mut lanes: Vec<Lane<'_>> = contenders.iter().map(Lane::new).collect();
        let begun = Instant::now();
        let mut round = 0;
        while rounds.another(round, begun) {
            progress.tell(&format!("round {} of {}", round + 1, rounds.most));
            for place in order(lanes.len(), round) {
                if let Some(lane) = lanes.get_mut(place) {
                    lane.run(block, &mut control).await?;
                }
            }
            round += 1;
        }
        Ok(Self { block, lanes })
    }

    fn rounds(&self) -> usize {
        self.lanes.first().map_or(0, |lane| lane.times.len())
    }

    /// Of each contender.
    fn ratios(&self) -> Vec<Option<Quartiles>> {
        let times = self.lanes.iter().map(|lane| lane.times.clone());
        ratios(&times.collect::<Vec<_>>())
    }

    fn medians(&self) -> Vec<Option<f64>> {
        let ratios = self.ratios().into_iter();
        ratios.map(|ratio| Some(ratio?.median)).collect()
    }

    /// µs of the server's time for a cycle, of each contender.
    fn server(&self) -> Vec<f64> {
        let all = self.lanes.iter().map(|lane| micros(lane.server.cpu));
        all.map(|all| self.a_cycle(all)).collect()
    }

    /// What was measured in all rounds, for one cycle.
    fn a_cycle(&self, all: f64) -> f64 {
        all / real(self.rounds() * self.block.count())
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let (ratios, server) = (self.ratios(), self.server());
        let first = server.first().copied().filter(|first| *first > 0.0);
        let lanes = self.lanes.iter().zip(ratios).zip(server);
        lanes
            .map(|((lane, ratio), server)| {
                let calls = lane.server.calls(lane.contender.sends);
                vec![
                    lane.contender.name.to_owned(),
                    spread(ratio, 2),
                    spread(Quartiles::of(lane.times.clone()), 1),
                    number(Some(self.a_cycle(micros(lane.client))), 1),
                    number(Some(server), 1),
                    number(first.map(|first| server / first), 2),
                    number(Some(self.a_cycle(count(calls))), 2),
                ]
            })
            .collect()
    }
}

impl<'a> Lane<'a> {
    fn new(contender: &'a Contender) -> Self {
        Self {
            contender,
            times: Vec::new(),
            client: Duration::ZERO,
            server: Work::default(),
        }
    }

    async fn run(&mut self, block: Block, control: &mut Control) -> Result<(), Failure> {
        let before = control.reading().await?;
        let took = self.contender.run(block).await?;
        let after = control.reading().await?;
        let each = took.each.into_iter().map(micros).collect();
        let middle = Quartiles::of(each).map(|cycles| cycles.median);
        let mean = micros(took.wall) / real(block.count());
        self.times.push(middle.unwrap_or(mean));
        self.client += took.cpu;
        self.server.add(&after.since(&before));
        Ok(())
    }
}

#[allow(clippy::cast_precision_loss, reason = "told with three digits")]
fn count(calls: u64) -> f64 {
    calls as f64
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
