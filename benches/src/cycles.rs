//! W1 and W2: taking and releasing a lock that no other task wants, in one task (W1), and in many
//! tasks with a key each (W2), also behind a wire and over TLS.

use std::time::{Duration, Instant};

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
use crate::wire::Wire;
use crate::{Failure, lab};

/// W1: one task.
pub(crate) async fn alone(lab: &Lab) -> Result<Chapter, Failure> {
    let field = field(lab).await?;
    let block = Block {
        tasks: 1,
        cycles: cycles(lab, 100),
    };
    let rounds = Rounds {
        most: lab.scale.pick(60, 20),
        within: Duration::from_secs(lab.scale.pick(60, 5)),
    };
    let progress = Progress::new("W1");
    let measured = Measured::take(lab, &field, block, rounds, progress).await?;
    let times = Panel {
        title: lab.title("W1: time of a cycle, raw = 1"),
        groups: vec![measured.size()],
        series: series(&field, &[measured.medians()]),
    };
    Ok(Chapter {
        title: lab.title("W1: acquire and release, one task"),
        notes: vec![measured.note()],
        head: field.head(),
        rows: measured.rows(),
        panels: vec![times],
    })
}

/// W2: many tasks.
pub(crate) async fn together(lab: &Lab) -> Result<Chapter, Failure> {
    let (title, numbers) = match lab.wire() {
        None => (
            "W2: acquire and release, many tasks with a key each",
            &[16, 64, 256, 1024][..],
        ),
        Some(_) => (
            "W1 and W2: acquire and release, tasks with a key each",
            lab.scale.pick(&FAR[..], &FEW),
        ),
    };
    sizes(lab, &field(lab).await?, ["W2", title], numbers).await
}

/// Measures each number of tasks; the panels begin with `name`.
pub(crate) async fn sizes(
    lab: &Lab,
    field: &Field,
    [name, title]: [&str; 2],
    numbers: &[usize],
) -> Result<Chapter, Failure> {
    let seconds = match lab.wire() {
        None => lab.scale.pick(60, 3),
        Some(_) => lab.scale.pick(15, 1),
    };
    let rounds = Rounds {
        most: lab.scale.pick(30, 12),
        within: Duration::from_secs(seconds),
    };
    let mut sizes = Vec::new();
    for &tasks in numbers {
        let wanted = (lab.scale.pick(12_800, 2_560) / tasks).clamp(2, 100);
        let cycles = cycles(lab, wanted);
        let block = Block { tasks, cycles };
        let progress = Progress::new(format!("{name}, {tasks} tasks"));
        sizes.push(Measured::take(lab, field, block, rounds, progress).await?);
    }
    let groups: Vec<String> = sizes.iter().map(Measured::size).collect();
    let panel = |title: &str, figures: Vec<_>| Panel {
        title: lab.title(&format!("{name}: {title} of a cycle, raw = 1")),
        groups: groups.clone(),
        series: series(field, &figures),
    };
    let (times, server) = (Measured::medians, Measured::server_ratios);
    Ok(Chapter {
        title: lab.title(title),
        notes: sizes.iter().map(Measured::note).collect(),
        head: field.head(),
        rows: sizes.iter().flat_map(Measured::rows).collect(),
        panels: vec![
            panel("time", sizes.iter().map(times).collect()),
            panel("server CPU", sizes.iter().map(server).collect()),
        ],
    })
}

/// Numbers of tasks behind a wire, where one task waits as long as several do.
const FAR: [usize; 7] = [1, 4, 16, 32, 64, 256, 1024];
const FEW: [usize; 5] = [1, 16, 64, 256, 1024];

/// Cycles of a task in a block. Behind a wire only as many as fit into this time, with two round
/// trips each.
fn cycles(lab: &Lab, wanted: usize) -> usize {
    let Some(wire) = lab.wire() else {
        return wanted;
    };
    let time = Duration::from_millis(lab.scale.pick(100, 40)).as_micros();
    let cycle = (wire.each_way * 4).as_micros() + 150;
    let fit = usize::try_from(time / cycle).unwrap_or(usize::MAX);
    wanted.min(fit.max(2))
}

/// Contenders that are measured side by side; the first is raw.
pub(crate) struct Field {
    pub(crate) contenders: Vec<Contender>,
    /// Columns that divide each contender's time and its servers' CPU time by another's than raw's:
    /// their heads, and the index of that other.
    pub(crate) beside: ([&'static str; 2], fn(usize) -> usize),
}

impl Field {
    fn head(&self) -> Vec<&'static str> {
        let [time, server] = self.beside.0;
        vec![
            "tasks",
            "contender",
            "time / raw",
            time,
            "time of a cycle, µs",
            "client CPU, µs",
            "client CPU / raw",
            "server CPU, µs",
            "server CPU / raw",
            server,
            "commands",
            "reads",
        ]
    }
}

/// Indexes in a [`Field`] of the divisors.
const RAW: usize = 0;
const PEER: usize = 2;

async fn field(lab: &Lab) -> Result<Field, Failure> {
    let url = lab.url();
    let raw = async || match lab.wire() {
        None => lab::connect(&url).await,
        Some(_) => lab::connect_far(&url).await,
    };
    let [raw, again] = [raw().await?, raw().await?];
    let pool = ours::pool(&url).await?;
    let mut contenders = vec![
        Contender::new("raw", raw::SENDS, Raw::on(raw, TTL).await?),
        Contender::new("raw, a second time", raw::SENDS, Raw::on(again, TTL).await?),
        Contender::new("rslock", peer::SENDS, Peer::new(&url)),
        Contender::new("dlock", ours::SENDS, Confirmed(pool.clone())),
        Contender::new("dlock, background", ours::SENDS, Background(pool)),
    ];
    if lab.wire().is_some() {
        let raw = Raw::connect(&url, TTL).await?;
        contenders.push(Contender::new("raw, without TCP_NODELAY", raw::SENDS, raw));
    }
    Ok(Field {
        contenders,
        beside: (["time / rslock", "server CPU / rslock"], |_| PEER),
    })
}

/// One series for each contender, with one bar in each group.
fn series(field: &Field, groups: &[Vec<Option<f64>>]) -> Vec<Series> {
    let own = |place: usize| groups.iter().map(move |group| group.get(place).copied()?);
    let named = field.contenders.iter().enumerate();
    named
        .map(|(place, contender)| Series {
            name: contender.name.to_owned(),
            bars: own(place).collect(),
        })
        .collect()
}

/// All rounds with one size of block.
struct Measured<'a> {
    field: &'a Field,
    block: Block,
    lanes: Vec<CycleLane<'a>>,
}

/// Figures of a contender, one for each round.
type CycleFigures<'a> = for<'lane> fn(&'lane CycleLane<'a>) -> &'lane Vec<f64>;

/// The measurements of one contender.
struct CycleLane<'a> {
    contender: &'a Contender,
    control: Control,
    /// The time of a cycle in µs, for each round.
    times: Vec<f64>,
    /// The servers' CPU time of a cycle in µs, for each round.
    cpus: Vec<f64>,
    client: Duration,
    server: Work,
    /// The time of all blocks.
    wall: Duration,
    /// The CPU time of the wire's process in all blocks.
    wire: Duration,
}

impl<'a> Measured<'a> {
    async fn take(
        lab: &Lab,
        field: &'a Field,
        block: Block,
        rounds: Rounds,
        mut progress: Progress,
    ) -> Result<Self, Failure> {
        // Warms up connections, scripts and memory before the first round.
        for contender in &field.contenders {
            contender.run(block).await?;
        }
        let mut lanes = Vec::new();
        for contender in &field.contenders {
            let control = lab.control_of(&contender.servers).await?;
            lanes.push(CycleLane::new(contender, control));
        }
        let begun = Instant::now();
        let mut round = 0;
        while rounds.another(round, begun) {
            progress.tell(&format!("round {} of {}", round + 1, rounds.most));
            for place in order(lanes.len(), round) {
                if let Some(lane) = lanes.get_mut(place) {
                    lane.run(lab, block).await?;
                }
            }
            round += 1;
        }
        Ok(Self {
            field,
            block,
            lanes,
        })
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
        let note = format!(
            "{size}: {cycles} cycles a task in each of {rounds} rounds; the time of a cycle is {kind} of its block."
        );
        note + &self.wire().unwrap_or_default()
    }

    /// The highest CPU load of the wire's process, if there is one.
    fn wire(&self) -> Option<String> {
        let part = |lane: &CycleLane<'_>| lane.wire.as_secs_f64() / lane.wall.as_secs_f64();
        let most = |one: &&CycleLane<'_>, other: &&CycleLane<'_>| part(one).total_cmp(&part(other));
        let lane = self.lanes.iter().max_by(most)?;
        let (name, part) = (lane.contender.name, part(lane) * 100.0);
        let each = self.a_cycle(micros(lane.wire));
        (!lane.wire.is_zero()).then(|| {
            format!(" The wire's process used {part:.0} % of a core at most, {each:.1} µs a cycle (of {name}).")
        })
    }

    /// Each contender's figures divided by those of one of them.
    fn ratios(&self, figures: CycleFigures<'a>, base: usize) -> Vec<Option<Quartiles>> {
        let figures = self.lanes.iter().map(|lane| figures(lane).clone());
        ratios(&figures.collect::<Vec<_>>(), base)
    }

    fn medians(&self) -> Vec<Option<f64>> {
        let ratios = self.ratios(|lane| &lane.times, RAW).into_iter();
        ratios.map(|ratio| Some(ratio?.median)).collect()
    }

    fn server_ratios(&self) -> Vec<Option<f64>> {
        let ratios = self
            .lanes
            .iter()
            .map(|lane| self.to_raw(lane, CycleLane::server));
        ratios.collect()
    }

    /// The CPU time of a contender divided by that of raw.
    fn to_raw(&self, lane: &CycleLane<'a>, cpu: fn(&CycleLane<'a>) -> Duration) -> Option<f64> {
        let raw = self.lanes.get(RAW).map(cpu).filter(|raw| !raw.is_zero())?;
        Some(cpu(lane).as_secs_f64() / raw.as_secs_f64())
    }

    /// A sum over all rounds, divided by the number of cycles.
    fn a_cycle(&self, all: f64) -> f64 {
        all / real(self.rounds() * self.block.count())
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let (_, base) = self.field.beside;
        let to_raw = self.ratios(|lane| &lane.times, RAW);
        let rows = self.lanes.iter().enumerate().zip(to_raw);
        rows.map(|((place, lane), raw)| {
            let beside = |figures: CycleFigures<'a>| {
                self.ratios(figures, base(place)).get(place).copied()?
            };
            let calls = lane.server.calls(lane.contender.sends);
            vec![
                self.block.tasks.to_string(),
                lane.contender.name.to_owned(),
                spread(raw, 2),
                spread(beside(|lane| &lane.times), 2),
                spread(Quartiles::of(lane.times.clone()), 1),
                number(Some(self.a_cycle(micros(lane.client))), 1),
                number(self.to_raw(lane, CycleLane::client), 2),
                number(Some(self.a_cycle(micros(lane.server()))), 1),
                number(self.to_raw(lane, CycleLane::server), 2),
                spread(beside(|lane| &lane.cpus), 2),
                number(Some(self.a_cycle(count(calls))), 2),
                number(Some(self.a_cycle(count(lane.server.reads))), 2),
            ]
        })
        .collect()
    }
}

impl<'a> CycleLane<'a> {
    fn new(contender: &'a Contender, control: Control) -> Self {
        Self {
            contender,
            control,
            times: Vec::new(),
            cpus: Vec::new(),
            client: Duration::ZERO,
            server: Work::default(),
            wall: Duration::ZERO,
            wire: Duration::ZERO,
        }
    }

    fn client(&self) -> Duration {
        self.client
    }

    fn server(&self) -> Duration {
        self.server.cpu
    }

    async fn run(&mut self, lab: &Lab, block: Block) -> Result<(), Failure> {
        let wire = || lab.wire().map_or(Ok(Duration::ZERO), Wire::cpu);
        let before = wire()?;
        let (took, work) = self.contender.run_at(block, &mut self.control).await?;
        self.wire += wire()?.saturating_sub(before);
        self.wall += took.wall;
        let each = took.each.into_iter().map(micros).collect();
        let middle = Quartiles::of(each).map(|cycles| cycles.median);
        let mean = micros(took.wall) / real(block.count());
        self.times.push(middle.unwrap_or(mean));
        self.cpus.push(micros(work.cpu) / real(block.count()));
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
