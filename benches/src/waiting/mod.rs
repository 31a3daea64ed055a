//! W7: what many long waits cost. Each waiter sends signs of life and must not lose its queue
//! entry; other clients must not notice them.
//!
//! The waiters are tasks of eight processes (`waiter`). The server does the counting: its CPU time,
//! its commands, and queue entries that were lost and made anew. A connection of its own measures
//! how long a PING takes meanwhile.

mod waiter;

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::Failure;
use crate::chapter::{Chapter, Panel, Series, number};
use crate::lab::{Control, Lab};
use crate::part::Part;
use crate::progress::Progress;
use crate::statistics::{Quartiles, real};

pub(crate) use waiter::wait;

const PROCESSES: usize = 8;

/// The pause between two PINGs.
const PAUSE: Duration = Duration::from_millis(2);

/// The time for all to ask for their locks, and to poll at least once.
const AT_LEAST: Duration = Duration::from_secs(2);

/// If not all wait by then, those that do are measured.
const AT_MOST: Duration = Duration::from_secs(20);

struct Crowd {
    keys: &'static str,
    together: bool,
    waiters: usize,
}

struct Run {
    places: usize,
    /// Percent of a core.
    server: f64,
    client: f64,
    commands: f64,
    lost: u64,
    /// In ms.
    pings: Vec<f64>,
}

const HEAD: [&str; 9] = [
    "places",
    "who",
    "heartbeats",
    "server, % of a core",
    "clients, % of a core",
    "commands/s",
    "places lost",
    "PING p50, ms",
    "PING most, ms",
];

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let numbers: &[usize] = lab.scale.pick(&[2_000, 20_000, 50_000], &[2_000]);
    let window = Duration::from_secs(lab.scale.pick(5, 2));
    let mut progress = Progress::new("W7");
    let (mut rows, mut bars) = (Vec::new(), [Vec::new(), Vec::new()]);
    for keys in [waiter::ONE_KEY, waiter::KEY_EACH] {
        for &waiters in numbers {
            for together in [false, true] {
                let crowd = Crowd {
                    keys,
                    together,
                    waiters,
                };
                progress.tell(&format!("{waiters} places, {}", crowd.heartbeats()));
                let run = crowd.run(&lab.another()?, window).await?;
                if keys == waiter::ONE_KEY {
                    bars[usize::from(together)].push(Some(run.server));
                }
                rows.push(crowd.row(run));
            }
        }
    }
    let [alone, together] = bars;
    let series = [("each by itself", alone), ("together", together)];
    Ok(Chapter {
        title: format!("W7: waiting for {} s, in {PROCESSES} processes", window.as_secs()),
        notes: vec![
            "By itself: with `max_in_flight`, which switches off that commands are put together. A place is lost if its waiter \
             had to ask again. PING: of a connection that does nothing else, every 2 ms, from the core of the clients."
                .to_owned(),
        ],
        head: HEAD.to_vec(),
        rows,
        panels: vec![Panel {
            title: "W7: server, % of a core".to_owned(),
            groups: numbers.iter().map(|it| format!("{it} readers")).collect(),
            series: series
                .map(|(name, bars)| Series {
                    name: name.to_owned(),
                    bars,
                })
                .into(),
        }],
    })
}

impl Crowd {
    fn heartbeats(&self) -> &'static str {
        if self.together {
            "together"
        } else {
            "each by itself"
        }
    }

    fn row(&self, run: Run) -> Vec<String> {
        let of = match self.keys {
            waiter::ONE_KEY => "readers behind a writer",
            _ => "a key each",
        };
        let most = run.pings.iter().copied().fold(0.0, f64::max);
        let middle = Quartiles::of(run.pings).map(|of| of.median);
        vec![
            format!("{} of {}", run.places, self.waiters),
            of.to_owned(),
            self.heartbeats().to_owned(),
            number(Some(run.server), 1),
            number(Some(run.client), 1),
            number(Some(run.commands), 0),
            run.lost.to_string(),
            number(middle, 2),
            number(Some(most), 1),
        ]
    }

    async fn run(&self, lab: &Lab, window: Duration) -> Result<Run, Failure> {
        let mut control = lab.control().await?;
        let locks = self.lock(&mut control).await?;
        let mut parts = self.start(lab, window)?;
        let begun = Instant::now();
        while begun.elapsed() < AT_MOST && control.places(locks).await? < self.waiters {
            sleep(Duration::from_millis(200)).await;
        }
        sleep(AT_LEAST).await;
        let places = control.places(locks).await?;
        let before = control.reading().await?;
        for part in &mut parts {
            part.tell("go")?;
        }
        let (begun, mut pings) = (Instant::now(), Vec::new());
        while begun.elapsed() < window {
            pings.push(control.ping().await?.as_secs_f64() * 1e3);
            sleep(PAUSE).await;
        }
        let work = control.reading().await?.since(&before);
        let took = begun.elapsed().as_secs_f64();
        let mut client = 0.0;
        for mut part in parts {
            let used: f64 = part.line("used ")?.parse()?;
            client += used / 1e9;
            part.tell("end")?;
            part.end()?;
        }
        let sent = work.calls(&["evalsha", "eval"]);
        Ok(Run {
            places,
            server: 100.0 * work.cpu.as_secs_f64() / took,
            client: 100.0 * client / window.as_secs_f64(),
            commands: real(usize::try_from(sent)?) / took,
            lost: work.calls(&["set"]), // only new queue entries draw an epoch
            pings,
        })
    }

    /// Holds what they wait for; the number of locks.
    async fn lock(&self, control: &mut Control) -> Result<usize, Failure> {
        if self.keys == waiter::ONE_KEY {
            control.write_locked("lock:queue").await?;
            return Ok(1);
        }
        let locks = (0..self.waiters).map(|it| format!("lock:item:{it}"));
        control.locked(locks).await?;
        Ok(self.waiters)
    }

    fn start(&self, lab: &Lab, window: Duration) -> Result<Vec<Part>, Failure> {
        let each = self.waiters / PROCESSES;
        let millis = window.as_millis();
        (0..PROCESSES)
            .map(|process| {
                let together = if self.together { "together" } else { "alone" };
                let (url, keys, first) = (lab.url(), self.keys, process * each);
                let words = format!("waiter {url} {keys} {together} {first} {each} {millis}");
                let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
                Part::start(&words, &[])
            })
            .collect()
    }
}
