//! Hostile: the longest pause of a task that takes and releases a lock while another client
//! publishes forged grants to its connection. No other task wants its key; another task of the pool
//! waits for a lock, so that there is a queue entry for which grants can be forged.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dlock_runtime::{Config, LockPool};
use redis::aio::MultiplexedConnection;

use crate::Failure;
use crate::chapter::{Chapter, NONE, Panel, Series, number};
use crate::contenders::ours;
use crate::lab::{Lab, connect};
use crate::progress::Progress;
use crate::statistics::{quantile, real};

/// The number of messages that are sent together every 10 ms. With many more, the server closes a
/// connection that does not read as fast (`client-output-buffer-limit pubsub`).
const STORMS: [(&str, Option<usize>); 4] = [
    ("nothing", None),
    ("1,000 a second", Some(10)),
    ("10,000 a second", Some(100)),
    ("50,000 a second", Some(500)),
];

const EVERY: Duration = Duration::from_millis(10);

const HEAD: [&str; 7] = [
    "is said",
    "messages a second",
    "cycle p50, µs",
    "cycle p99, µs",
    "longest, ms",
    "commands a message",
    "n",
];

const LONG: Duration = Duration::from_secs(60);

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let length = Duration::from_secs(lab.scale.pick(10, 2));
    let mut progress = Progress::new("hostile");
    let (mut rows, mut groups, mut bars) = (Vec::new(), Vec::new(), Vec::new());
    for (name, storm) in STORMS {
        progress.tell(name);
        let run = run(&lab.another()?, storm, length).await?;
        groups.push(name.to_owned());
        bars.push(run.millis(1.0));
        rows.push(run.row(name));
    }
    Ok(Chapter {
        title: "Hostile: a lock beside forged grants".to_owned(),
        notes: vec![format!(
            "One task takes and gives back a lock of its own, {} s each. Messages are grants of a place in the queue in right form, as far as who \
             may read can write them. Publisher, server and task share the machine: part of the time is theirs.",
            length.as_secs()
        )],
        head: HEAD.to_vec(),
        rows,
        panels: vec![Panel {
            title: "Hostile: the longest cycle, ms".to_owned(),
            groups,
            series: vec![Series {
                name: "dlock".to_owned(),
                bars,
            }],
        }],
    })
}

/// The result of one rate of messages.
struct HostileRun {
    /// In ascending order, in seconds.
    cycles: Vec<f64>,
    messages: usize,
    /// Commands other than those of the cycles.
    commands: usize,
    length: Duration,
}

impl HostileRun {
    fn millis(&self, part: f64) -> Option<f64> {
        quantile(&self.cycles, part).map(|it| it * 1e3)
    }

    fn row(&self, name: &str) -> Vec<String> {
        let micros = |part| number(self.millis(part).map(|it| it * 1e3), 0);
        let each = match self.messages {
            0 => NONE.to_owned(),
            messages => format!("{:.5}", real(self.commands) / real(messages)),
        };
        vec![
            name.to_owned(),
            format!("{:.0}", real(self.messages) / self.length.as_secs_f64()),
            micros(0.5),
            micros(0.99),
            number(self.millis(1.0), 2),
            each,
            self.cycles.len().to_string(),
        ]
    }
}

async fn run(lab: &Lab, storm: Option<usize>, length: Duration) -> Result<HostileRun, Failure> {
    let pool = LockPool::connect(ours::patient(Config::new(lab.url()))).await?;
    let other = LockPool::connect(ours::patient(Config::new(lab.url()))).await?;
    let holder = other.lock("item").ttl(LONG).acquire().await?;
    let task = tokio::spawn(pool.lock("item").ttl(LONG).wait(LONG * 10).acquire());
    let mut control = lab.control().await?;
    let message = forged(&mut connect(&lab.url()).await?).await?;
    let ends = Arc::new(AtomicBool::new(false));
    let publisher = storm.map(|together| publish(lab.url(), message, together, ends.clone()));
    let (before, mut cycles) = (control.reading().await?, Vec::new());
    let begun = Instant::now();
    while begun.elapsed() < length {
        let asked = Instant::now();
        let guard = pool.lock("beside").ttl(LONG).acquire().await?;
        guard.release().await?;
        cycles.push(asked.elapsed().as_secs_f64());
    }
    let length = begun.elapsed();
    ends.store(true, Ordering::Relaxed);
    let messages = match publisher {
        Some(publisher) => publisher.join().map_err(|_| "the publisher panicked")??,
        None => 0,
    };
    let calls = usize::try_from(control.reading().await?.since(&before).calls(ours::SENDS))?;
    if task.is_finished() || !holder.is_held() {
        return Err("a forged grant was believed".into());
    }
    task.abort();
    cycles.sort_by(f64::total_cmp);
    Ok(HostileRun {
        commands: calls.saturating_sub(2 * cycles.len()),
        cycles,
        messages,
        length,
    })
}

/// The channel of the waiter's connection, and a forged grant for the waiter.
async fn forged(control: &mut MultiplexedConnection) -> Result<(String, String), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < LONG {
        let mut ask = redis::cmd("ZRANGE");
        let places = ask.arg("lock:@w:{lock:item}").arg(0).arg(-1);
        let places: Vec<String> = places.query_async(control).await?;
        if let Some(place) = places.first() {
            let address = place.split('|').nth(3).and_then(|it| it.split_once(';'));
            let (_, channel) = address.ok_or("a place of another form")?;
            let guess = "0123456789012345678901234567890123456789";
            let message = format!("1|granted\nlock:item\n{place}\n1\n1\n3000\n{guess}");
            return Ok((channel.to_owned(), message));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    Err("nobody waits".into())
}

/// Publishes on a thread of its own, and returns the number of messages.
fn publish(
    url: String,
    (channel, message): (String, String),
    together: usize,
    ends: Arc<AtomicBool>,
) -> std::thread::JoinHandle<Result<usize, Failure>> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let mut connection = connect(&url).await?;
            let mut pipe = redis::pipe();
            for _ in 0..together {
                pipe.cmd("PUBLISH").arg(&channel).arg(&message).ignore();
            }
            let mut messages = 0;
            let mut ticks = tokio::time::interval(EVERY);
            while !ends.load(Ordering::Relaxed) {
                pipe.exec_async(&mut connection).await?;
                messages += together;
                ticks.tick().await;
            }
            Ok(messages)
        })
    })
}
