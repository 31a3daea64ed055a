//! W5: many locks are held and renewed; what one renewal costs.
//!
//! A process of its own, the `keeper`, holds them, so that its CPU time and memory contain nothing
//! else. The server does the counting: its statistics have the renewals, and a missing key is a
//! lost lock.

mod keeper;
mod room;

use std::time::{Duration, Instant};

use crate::chapter::{Chapter, Panel, Series, number, spread};
use crate::lab::Lab;
use crate::part::Part;
use crate::plan::Keep;
use crate::progress::Progress;
use crate::rounds::{Rounds, order, ratios};
use crate::statistics::{Quartiles, real};
use crate::{Failure, story};

pub(crate) use keeper::keep;

/// One contender, which has a row of the table.
struct Keeper {
    name: &'static str,
    /// Its name on the keeper's command line.
    word: &'static str,
    /// The last command of each renewal's script.
    renews: &'static str,
    /// The commands that its client sends meanwhile.
    sends: &'static [&'static str],
}

/// The first is the divisor of the others' ratios.
const KEEPERS: [Keeper; 3] = [
    Keeper {
        name: "raw, a task per lock",
        word: keeper::RAW,
        renews: "pexpire",
        sends: &["evalsha"],
    },
    Keeper {
        name: "rslock, `using`",
        word: keeper::PEER,
        renews: "set",
        sends: &["evalsha"],
    },
    Keeper {
        name: "dlock, guards",
        word: keeper::OURS,
        renews: "pexpire",
        sends: &["evalsha", "eval"],
    },
];

const HEAD: [&str; 10] = [
    "contender",
    "taken in, s",
    "renewals/s",
    "client CPU a renewal, µs",
    "client CPU / raw",
    "server CPU a renewal, µs",
    "commands a renewal",
    "client memory a lock, B",
    "lost",
    "n",
];

/// The figures of one keeper in one window.
struct Window {
    /// Seconds until all locks were taken.
    taking: f64,
    renewals: f64,
    /// µs for one renewal; NaN if there was none.
    client: f64,
    server: f64,
    commands: f64,
    /// Bytes for one lock, if the system reports them.
    memory: Option<f64>,
    lost: usize,
}

pub(crate) async fn chapter(lab: &Lab, keep: Keep) -> Result<Chapter, Failure> {
    let Keep { locks, ttl, window } = keep;
    room::check(locks)?;
    let rounds = Rounds {
        most: lab.scale.pick(5, 1),
        within: Duration::from_secs(240),
    };
    let mut progress = Progress::new(format!("W5, {locks} locks"));
    let mut lanes: Vec<_> = KEEPERS.iter().map(|keeper| (keeper, Vec::new())).collect();
    let (begun, mut round) = (Instant::now(), 0);
    while rounds.another(round, begun) {
        for place in order(lanes.len(), round) {
            if let Some((keeper, windows)) = lanes.get_mut(place) {
                let name = keeper.name;
                let step = format!("round {} of {}, {name}", round + 1, rounds.most);
                let done = keeper.window(lab, keep, |does: &str| {
                    progress.tell(&format!("{step}: {does}"));
                });
                windows.push(
                    done.await
                        .map_err(|why| format!("{name}: {}", story(&*why)))?,
                );
            }
        }
        round += 1;
    }
    let costs = lanes
        .iter()
        .map(|(_, windows)| client(windows))
        .collect::<Vec<_>>();
    let rows = lanes.iter().zip(ratios(&costs, 0));
    let rows = rows.map(|((keeper, windows), ratio)| keeper.row(windows, ratio, window));
    let series = lanes.iter().map(|(keeper, windows)| Series {
        name: keeper.name.to_owned(),
        bars: vec![quartiles(windows).map(|of| of.median)],
    });
    Ok(Chapter {
        title: format!(
            "W5: {locks} locks held by one process, ttl {} s, renewed",
            ttl.as_secs()
        ),
        notes: vec![format!(
            "Rounds of {} s: {round}. raw and dlock renew every {:.1} s, rslock half a second before the end.",
            window.as_secs(),
            (ttl / keeper::PART).as_secs_f64()
        )],
        head: HEAD.to_vec(),
        rows: rows.collect(),
        panels: vec![Panel {
            title: "W5: client CPU of a renewal, µs".to_owned(),
            groups: vec![format!("{locks} locks")],
            series: series.collect(),
        }],
    })
}

fn client(windows: &[Window]) -> Vec<f64> {
    windows.iter().map(|window| window.client).collect()
}

fn quartiles(windows: &[Window]) -> Option<Quartiles> {
    let costs = client(windows).into_iter();
    Quartiles::of(costs.filter(|cost| cost.is_finite()).collect())
}

impl Keeper {
    async fn window(
        &self,
        lab: &Lab,
        keep: Keep,
        mut tell: impl FnMut(&str),
    ) -> Result<Window, Failure> {
        let mut control = lab.control().await?;
        control.clear().await?;
        let Keep { locks, ttl, window } = keep;
        let (ttl, millis) = (ttl.as_millis(), window.as_millis());
        let words = format!("keeper {} {} {locks} {ttl} {millis}", self.word, lab.url());
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        let begun = Instant::now();
        let mut part = Part::start(&words, &[])?;
        let memory = taken(&mut part, |count| {
            tell(&format!("{count} of {locks} taken"));
        })?;
        let taking = begun.elapsed().as_secs_f64();
        tell(&format!("holds them for {} s", window.as_secs()));
        let before = control.reading().await?;
        part.tell("go")?;
        let cpu: f64 = part.line("used ")?.parse()?;
        let work = control.reading().await?.since(&before);
        let left = control.keys().await?;
        let held: usize = part.line("held ")?.parse()?;
        part.tell("end")?;
        part.end()?;
        let renewals = count(work.calls(&[self.renews]));
        Ok(Window {
            taking,
            renewals,
            client: cpu / 1e3 / renewals,
            server: work.cpu.as_secs_f64() * 1e6 / renewals,
            commands: count(work.calls(self.sends)) / renewals,
            memory: memory.map(|bytes| bytes / real(locks)),
            lost: locks.saturating_sub(left.min(held)),
        })
    }

    fn row(&self, windows: &[Window], ratio: Option<Quartiles>, each: Duration) -> Vec<String> {
        let middle = |figure: fn(&Window) -> Option<f64>| {
            let figures = windows.iter().filter_map(figure);
            Quartiles::of(figures.filter(|it| it.is_finite()).collect()).map(|of| of.median)
        };
        let pace = middle(|window| Some(window.renewals));
        let lost: usize = windows.iter().map(|window| window.lost).sum();
        let all: f64 = windows.iter().map(|window| window.renewals).sum();
        vec![
            self.name.to_owned(),
            number(middle(|window| Some(window.taking)), 1),
            number(pace.map(|pace| pace / each.as_secs_f64()), 0),
            spread(quartiles(windows), 2),
            spread(ratio, 2),
            number(middle(|window| Some(window.server)), 2),
            number(middle(|window| Some(window.commands)), 3),
            number(middle(|window| window.memory), 0),
            lost.to_string(),
            format!("{all:.0}"),
        ]
    }
}

/// Waits until the keeper has all its locks; by how much its memory has grown.
fn taken(part: &mut Part, mut tell: impl FnMut(&str)) -> Result<Option<f64>, Failure> {
    loop {
        let line = part.line("")?;
        if let Some(count) = line.strip_prefix("took ") {
            tell(count);
        } else {
            let holds = line.strip_prefix("holds ");
            let holds = holds.ok_or_else(|| format!("a keeper said `{line}`"))?;
            return Ok(holds.parse().ok());
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "told with three digits")]
fn count(calls: u64) -> f64 {
    calls as f64
}
