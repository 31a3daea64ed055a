//! W1 and W2: taking and giving back a lock that nobody else wants, by one task, and by many at once with a key each.

use std::time::{Duration, Instant};

use dlock_runtime::{Config, LockPool};

use crate::Failure;
use crate::chapter::{Chapter, Panel, Series, number, spread};
use crate::contenders::ours::{self, Background, Confirmed};
use crate::contenders::peer::{self, Peer};
use crate::contenders::raw::{self, Raw};
use crate::contenders::{Block, Contender, TTL};
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
        groups: vec![measured.size()],
        series: series(&contenders, &[measured.medians()]),
    };
    Ok(Chapter {
        title: "W1: acquire and release, one task".to_owned(),
        notes: vec![measured.note()],
        head: HEAD.to_vec(),
        rows: measured.rows(),
        panels: vec![times],
    })
}

/// W2.
pub(crate) async fn together(lab: &Lab) -> Result<Chapter, Failure> {
    let contenders = contenders(lab).await?;
    let rounds = Rounds {
        most: lab.scale.pick(30, 12),
        within: Duration::from_secs(lab.scale.pick(60, 3)),
    };
    let mut sizes = Vec::new();
    for tasks in [16, 64, 256, 1024] {
        let cycles = (lab.scale.pick(12_800, 2_560) / tasks).clamp(2, 100);
        let block = Block { tasks, cycles };
        let progress = Progress::new(format!("W2, {tasks} tasks"));
        sizes.push(Measured::take(lab, &contenders, block, rounds, progress).await?);
    }
    let groups: Vec<String> = sizes.iter().map(Measured::size).collect();
    let panel = |title: &str, figures: Vec<_>| Panel {
        title: title.to_owned(),
        groups: groups.clone(),
        series: series(&contenders, &figures),
    };
    let (times, server) = (Measured::medians, Measured::server_ratios);
    Ok(Chapter {
        title: "W2: acquire and release, many tasks with a key each".to_owned(),
        notes: sizes.iter().map(Measured::note).collect(),
        head: HEAD.to_vec(),
        rows: sizes.iter().flat_map(Measured::rows).collect(),
        panels: vec![
            panel(
                "W2: time of a cycle, raw = 1",
                sizes.iter().map(times).collect(),
            ),
            panel(
                "W2: server CPU of a cycle, raw = 1",
                sizes.iter().map(server).collect(),
            ),
        ],
    })
}

const HEAD: [&str; 9] = [
    "tasks",
    "contender",
    "time / raw",
    "time / rslock",
    "time of a cycle, µs",
    "client CPU, µs",
    "server CPU, µs",
    "server CPU / raw",
    "commands",
];

/// Where in [`contenders`] those are that the others are divided by.
const RAW: usize = 0;
const PEER: usize = 2;

async fn contenders(lab: &Lab) -> Result<Vec<Contender>, Failure> {
    let url = lab.url();
    let raw = Raw::connect(&url, TTL).await?;
    let again = Raw::connect(&url, TTL).await?;
    let pool = LockPool::connect(ours::patient(Config::new(&url))).await?;
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

    fn size(&self) -> String {
        match self.block.tasks {
            1 => "1 task".to_owned(),
            tasks => format!("{tasks} tasks"),
        }
    }

    fn note(&self) -> String {
        let (size, rounds, cycles) = (self.size(), self.rounds(), self.block.cycles);
        let kind = match self.block.tasks {
            1 => "the median",
            _ => "the mean",
        };
        format!(
            "{size}: {cycles} cycles a task in each of {rounds} rounds; the time of a cycle is {kind} of its block."
        )
    }

    /// Of each contender, to one of them.
    fn ratios(&self, base: usize) -> Vec<Option<Quartiles>> {
        let times = self.lanes.iter().map(|lane| lane.times.clone());
        ratios(&times.collect::<Vec<_>>(), base)
    }

    fn medians(&self) -> Vec<Option<f64>> {
        let ratios = self.ratios(RAW).into_iter();
        ratios.map(|ratio| Some(ratio?.median)).collect()
    }

    /// µs of the server's time for a cycle.
    fn server(&self, lane: &Lane<'_>) -> f64 {
        self.a_cycle(micros(lane.server.cpu))
    }

    fn server_ratios(&self) -> Vec<Option<f64>> {
        let raw = self.lanes.get(RAW).map(|lane| self.server(lane));
        let raw = raw.filter(|raw| *raw > 0.0);
        let ratios = self.lanes.iter().map(|lane| Some(self.server(lane) / raw?));
        ratios.collect()
    }

    /// What was measured in all rounds, for one cycle.
    fn a_cycle(&self, all: f64) -> f64 {
        all / real(self.rounds() * self.block.count())
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let ratios = self.ratios(RAW).into_iter().zip(self.ratios(PEER));
        let rows = self.lanes.iter().zip(ratios).zip(self.server_ratios());
        rows.map(|((lane, (raw, peer)), server)| {
            let calls = lane.server.calls(lane.contender.sends);
            vec![
                self.block.tasks.to_string(),
                lane.contender.name.to_owned(),
                spread(raw, 2),
                spread(peer, 2),
                spread(Quartiles::of(lane.times.clone()), 1),
                number(Some(self.a_cycle(micros(lane.client))), 1),
                number(Some(self.server(lane)), 1),
                number(server, 2),
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
        let (took, work) = self.contender.run_at(block, control).await?;
        let each = took.each.into_iter().map(micros).collect();
        let middle = Quartiles::of(each).map(|cycles| cycles.median);
        let mean = micros(took.wall) / real(block.count());
        self.times.push(middle.unwrap_or(mean));
        self.client += took.cpu;
        self.server.add(&work);
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
