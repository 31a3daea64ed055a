//! A contended minute: six tasks of three instances want one lock, and one of them hangs in it. The
//! spans of dlock show who waited, who held it, how it went on, and whom it was taken from.
//!
//! `cargo run -p dlock-examples --example timeline` takes a minute, `-- --seconds N` another time; `--svg FILE` draws
//! it into a file as well. It starts a private `redis-server`; `DLOCK_URL` names another.
//!
//! Read `record` to see how spans become a history; `minute` is the minute, and `picture` draws it,
//! for the terminal and as SVG.

mod picture;
mod record;
#[path = "../first/server.rs"]
mod server;
#[allow(dead_code, reason = "its legend is one row")]
#[path = "../sheet.rs"]
mod sheet;

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use dlock_runtime::{Config, LockError, LockPool, Wait};
use tokio::time::{Instant, sleep, sleep_until};
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use record::{History, Record};
use server::Server;

type Failure = Box<dyn Error + Send + Sync>;

const INSTANCES: [&str; 3] = ["web-1", "web-2", "web-3"];
const TASKS: [char; 2] = ['a', 'b'];

/// Which task hangs in its body, once half of the time has passed.
const HANGS: (&str, char) = ("web-2", 'b');

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("timeline: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Failure> {
    let Arguments { length, svg } = arguments()?;
    let record = Record::default();
    tracing_subscriber::registry().with(record.clone()).init();

    let (url, _server) = if let Ok(url) = std::env::var("DLOCK_URL") {
        (url, None)
    } else {
        let (url, server) = Server::start(false).await?;
        (url, Some(server))
    };
    println!("six tasks take turns for {length:?} …\n");
    let history = minute(&url, length, &record).await?;
    if history.intervals.is_empty() {
        return Err("no span of dlock was seen".into());
    }
    print!("{}", picture::text(&history));
    if let Some(path) = svg {
        let written = std::fs::write(&path, picture::svg(&history));
        written.map_err(|why| format!("can't write {}: {why}", path.display()))?;
        println!("\nthe picture is in {}", path.display());
    }
    Ok(())
}

/// Each instance has a pool of its own, as a process would.
async fn minute(url: &str, length: Duration, record: &Record) -> Result<History, Failure> {
    let ttl = (length / 6).clamp(Duration::from_millis(300), Duration::from_secs(10));
    let mut pools = Vec::new();
    for instance in INSTANCES {
        let config = Config::new(url).holder_name(instance);
        let config = config.local_handoff(4, Duration::from_secs(1));
        pools.push((instance, LockPool::connect(config).await?));
    }
    let begun = Instant::now();
    record.begin();
    let mut tasks = Vec::new();
    for (instance, pool) in &pools {
        for task in TASKS {
            let minute = Minute {
                pool: pool.clone(),
                ttl,
                begun,
                length,
                hangs: (*instance, task) == HANGS,
            };
            let name = format!("{instance} {task}");
            let span = tracing::info_span!("task", name);
            tasks.push(tokio::spawn(minute.work().instrument(span)));
        }
    }
    sleep_until(begun + length).await;
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        match task.await {
            Ok(ended) => ended?,
            Err(aborted) if aborted.is_cancelled() => {}
            Err(panicked) => return Err(panicked.into()),
        }
    }
    Ok(record.history())
}

/// What one task does.
struct Minute {
    pool: LockPool,
    ttl: Duration,
    begun: Instant,
    length: Duration,
    hangs: bool,
}

impl Minute {
    async fn work(mut self) -> Result<(), LockError> {
        loop {
            sleep(self.some(0, 70)).await;
            let hangs = self.hangs && self.begun.elapsed() >= self.length / 2;
            let takes = if hangs {
                3 * self.ttl
            } else {
                self.some(3, 30)
            };
            let report = self.pool.lock("report").ttl(self.ttl).wait(Wait::Forever);
            match report.run(async |_| sleep(takes).await).await {
                Ok(()) => {}
                Err(LockError::Lost { .. }) => self.hangs = false,
                Err(error) => return Err(error),
            }
        }
    }

    /// A random number of thousandths of the whole time.
    fn some(&self, least: u32, most: u32) -> Duration {
        self.length * fastrand::u32(least..=most) / 1000
    }
}

struct Arguments {
    length: Duration,
    svg: Option<PathBuf>,
}

fn arguments() -> Result<Arguments, Failure> {
    const USAGE: &str = "arguments: --seconds N, 1 to 3600; --svg FILE";
    let mut arguments = Arguments {
        length: Duration::from_secs(60),
        svg: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match (word.as_str(), words.next()) {
            ("--seconds", Some(number)) => {
                let seconds = number.parse().ok().filter(|it| (1..=3600).contains(it));
                arguments.length = Duration::from_secs(seconds.ok_or(USAGE)?);
            }
            ("--svg", Some(file)) => arguments.svg = Some(file.into()),
            _ => return Err(USAGE.into()),
        }
    }
    Ok(arguments)
}
