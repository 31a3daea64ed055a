//! `dlock bench`: what a lock costs on this server, measured from here.
//!
//! Three loops, as the project's benchmarks W1 to W3: one task; many tasks with a lock each; many
//! tasks of several pools with one lock. It takes locks of its own names only, which are free again
//! afterwards.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use dlock_runtime::{Config, LockError, LockPool};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::args::BenchArgs;
use crate::output::{self, Notices};
use crate::status::Failure;
use crate::{server, table};

/// The pools that compete for one lock, as processes would.
const POOLS: usize = 4;
/// For one lock: longer than any pause that is worth measuring.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often a `PING` is measured.
const PINGS: usize = 100;

/// Measures, and prints a table.
pub(crate) async fn bench(
    args: BenchArgs,
    url: Option<&str>,
    notices: Notices,
) -> Result<u8, Failure> {
    if args.tasks == 0 || args.tasks > 10_000 || args.time < Duration::from_millis(300) {
        return Err(Failure::usage(
            "give 1 to 10,000 `--tasks`, and a `--time` of at least 300ms",
        ));
    }
    let config = server::config(url)?
        .command_timeout(PATIENCE / 2) // a slow answer is a result, not a failure
        .local_handoff(0, Duration::ZERO);
    let mut bench = Bench {
        pools: Vec::new(),
        prefix: format!("dlock-bench:{}", std::process::id()),
        each: args.time / 3,
        rows: Vec::new(),
        progress: io::stderr().is_terminal() && !notices.json,
    };
    for _ in 0..POOLS {
        bench
            .pools
            .push(LockPool::connect(Config::clone(&config)).await?);
    }
    bench.pings().await?;
    bench.measure("one task, one lock", 1, 1, true).await?;
    let name = format!("{} tasks, a lock each", args.tasks);
    bench.measure(&name, 1, args.tasks, true).await?;
    let name = format!("{} tasks of {POOLS} pools, one lock", args.tasks.max(POOLS));
    bench
        .measure(&name, POOLS, args.tasks.max(POOLS), false)
        .await?;
    bench.progress("");
    bench.print(notices)?;
    for pool in &bench.pools {
        pool.shutdown().await;
    }
    Ok(0)
}

struct Bench {
    pools: Vec<LockPool>,
    prefix: String,
    /// How long each loop runs.
    each: Duration,
    rows: Vec<Row>,
    progress: bool,
}

/// What a loop has measured.
struct Row {
    name: String,
    count: usize,
    took: Duration,
    /// Of one cycle: to acquire and to release. Sorted.
    cycles: Vec<Duration>,
}

impl Bench {
    fn progress(&self, doing: &str) {
        if self.progress {
            let _ = write!(io::stderr(), "\r\x1b[K{doing}"); // for people, if they look
        }
    }

    async fn pings(&mut self) -> Result<(), Failure> {
        self.progress("PING …");
        let began = Instant::now();
        let mut cycles = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            let Some(pool) = self.pools.first() else {
                break;
            };
            cycles.push(pool.ping().await?);
        }
        self.add("a PING, to compare", began.elapsed(), cycles);
        Ok(())
    }

    async fn measure(
        &mut self,
        name: &str,
        pools: usize,
        tasks: usize,
        own_key: bool,
    ) -> Result<(), Failure> {
        self.progress(&format!("{name}, {} …", table::about(self.each)));
        let began = Instant::now();
        let until = began + self.each;
        let mut running = JoinSet::new();
        let pools = self.pools.iter().take(pools).cycle();
        for (task, pool) in pools.take(tasks).enumerate() {
            let key = if own_key {
                format!("{}:{task}", self.prefix)
            } else {
                self.prefix.clone()
            };
            running.spawn(cycles(pool.clone(), key, until));
        }
        let mut all = Vec::new();
        while let Some(ended) = running.join_next().await {
            let ended =
                ended.map_err(|error| Failure::internal(format!("a task failed: {error}")))?;
            all.extend(ended?);
        }
        self.add(name, began.elapsed(), all);
        Ok(())
    }

    fn add(&mut self, name: &str, took: Duration, mut cycles: Vec<Duration>) {
        cycles.sort_unstable();
        self.rows.push(Row {
            name: name.to_owned(),
            count: cycles.len(),
            took,
            cycles,
        });
    }

    fn print(&self, notices: Notices) -> Result<(), Failure> {
        if notices.json {
            let rows: Vec<_> = self.rows.iter().map(Row::json).collect();
            return output::print(&format!("{}\n", json!({"measured": rows})));
        }
        let rows: Vec<_> = self.rows.iter().map(Row::cells).collect();
        let header = ["ACQUIRE AND RELEASE", "PER SECOND", "MEDIAN", "P99", "MOST"];
        output::print(&table::render(header, &rows))
    }
}

/// Takes and releases one lock until the time is over; how long each cycle took.
async fn cycles(pool: LockPool, key: String, until: Instant) -> Result<Vec<Duration>, LockError> {
    let mut cycles = Vec::new();
    while Instant::now() < until {
        let began = Instant::now();
        let request = pool.lock(key.as_str()).function("dlock bench");
        request.wait(PATIENCE).acquire().await?.release().await?;
        cycles.push(began.elapsed());
    }
    Ok(cycles)
}

impl Row {
    /// The cycle that this part of all cycles was faster than.
    fn at(&self, percent: usize) -> Duration {
        let at = self.cycles.len() * percent / 100;
        let last = self.cycles.len().saturating_sub(1);
        self.cycles.get(at.min(last)).copied().unwrap_or_default()
    }

    fn per_second(&self) -> u64 {
        let (count, nanos) = (self.count as u128, self.took.as_nanos().max(1));
        u64::try_from(count * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }

    fn cells(&self) -> [String; 5] {
        let fine = |it: Duration| format!("{it:.1?}");
        [
            self.name.clone(),
            self.per_second().to_string(),
            fine(self.at(50)),
            fine(self.at(99)),
            fine(self.at(100)),
        ]
    }

    fn json(&self) -> Value {
        let micros = |it: Duration| u64::try_from(it.as_micros()).unwrap_or(u64::MAX);
        json!({
            "name": self.name,
            "count": self.count,
            "per_second": self.per_second(),
            "median_us": micros(self.at(50)),
            "p99_us": micros(self.at(99)),
            "most_us": micros(self.at(100)),
        })
    }
}
