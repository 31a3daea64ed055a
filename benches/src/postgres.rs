//! Locks in PostgreSQL beside bare statements, advisory locks and Redis, all in the same rounds: cycles with
//! and without a flush for each commit, the WAL that they write, hand-over to another process, renewals.
//! Each row has the ratio that it is for, and its target.
//!
//! The cluster flushes to the disk; `flush off` is `synchronous_commit=off` for the contender's connection.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_harness::PostgresServer;
use dlock_harness::postgres::postgres_program;
use dlock_runtime::Config;
use tokio::time::sleep;
use tokio_postgres::{Client, NoTls, Statement};

use crate::Failure;
use crate::chapter::{Chapter, NONE, Panel, Series, number, spread};
use crate::contenders::ours::{self, Confirmed};
use crate::contenders::{Block, Contender, Cycle};
use crate::contention::{self, Fleet};
use crate::lab::Lab;
use crate::part::Part;
use crate::progress::Progress;
use crate::rounds::{Rounds, order, ratios};
use crate::statistics::{Quartiles, real};

const SCHEMA: &str = "bench";

/// Keys in one statement.
const TOGETHER: usize = 64;

/// As for the keeper of W5.
const KEPT: (usize, Duration) = (10_000, Duration::from_secs(30));

pub(crate) fn is_installed() -> Result<(), Failure> {
    let found = postgres_program("postgres").map(drop);
    found.ok_or_else(|| "PostgreSQL is not installed: apt-get install postgresql".into())
}

pub(crate) async fn chapters(lab: &Lab) -> Result<Vec<Chapter>, Failure> {
    let server = Server::start(lab).await?;
    let flush = server.flush()?;
    let mut cycles = Vec::new();
    for is_flushed in [true, false] {
        for tasks in [1, TOGETHER] {
            cycles.push(Cycles::take(lab, &server, is_flushed, tasks).await?);
        }
    }
    let cycles = Chapter {
        title: "PostgreSQL: acquire and release, tasks with a key each".to_owned(),
        notes: vec![
            format!("A flush to the disk (`pg_test_fsync`, fdatasync): {flush}."),
            "base / own is what has a target: beside 64 keys in a statement for 64 tasks, beside bare for one. WAL without full-page images.".to_owned(),
        ],
        head: vec![
            "flush", "tasks", "contender", "time of a cycle, µs", "base / own", "target", "WAL, B a cycle",
            "WAL / bare", "target",
        ],
        rows: cycles.iter().flat_map(Cycles::rows).collect(),
        panels: vec![Panel {
            title: "PostgreSQL: cycles beside the base, base = 1".to_owned(),
            groups: cycles.iter().map(Cycles::name).collect(),
            series: vec![Series {
                name: "dlock".to_owned(),
                bars: cycles.iter().map(|it| Some(it.ours()?.median)).collect(),
            }],
        }],
    };
    // As in W4, where many ask just as it is released; and always waited for.
    let [of_w4, of_waiters] = [(2, 3), (4, 1)].map(|pauses| handover(lab, &server, pauses));
    let renewals = renewals(&server).await?;
    Ok(vec![cycles, of_w4?, of_waiters?, renewals])
}

struct Server(PostgresServer);

impl Server {
    async fn start(lab: &Lab) -> Result<Self, Failure> {
        let server = Self(PostgresServer::start_with(&["fsync=on"]));
        for pid in server.processes() {
            lab.pin(pid)?; // those that are forked later are where the first one is
        }
        Config::new(server.url(true)).migrate().await?;
        let tables = format!(
            "CREATE TABLE {SCHEMA}.bare (key text PRIMARY KEY, holder text NOT NULL, ends timestamptz NOT NULL)"
        );
        server.connect(true).await?.batch_execute(&tables).await?;
        Ok(server)
    }

    fn url(&self, is_flushed: bool) -> String {
        let level = if is_flushed { "on" } else { "off" };
        format!("{}&synchronous_commit={level}", self.0.url(SCHEMA))
    }

    async fn connect(&self, is_flushed: bool) -> Result<Arc<Client>, Failure> {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.0.directory()).user("postgres");
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        let level = if is_flushed { "on" } else { "off" };
        client
            .batch_execute(&format!("SET synchronous_commit = {level}"))
            .await?;
        Ok(Arc::new(client))
    }

    /// The first one, and those that it has forked.
    fn processes(&self) -> Vec<u32> {
        let first = self.0.pid();
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let all = all.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
        all.filter(|pid| *pid == first || stat(*pid).first() == Some(&u64::from(first)))
            .collect()
    }

    /// The CPU time of all its processes, those that have ended too.
    fn cpu(&self) -> Duration {
        let first = self.0.pid();
        let ticks = self.processes().into_iter().map(|pid| {
            let times = stat(pid);
            let own: u64 = times.iter().skip(10).take(2).sum();
            let ended: u64 = times.iter().skip(12).take(2).sum();
            own + if pid == first { ended } else { 0 }
        });
        let second = rustix::param::clock_ticks_per_second();
        Duration::from_millis(ticks.sum::<u64>() * 1000 / second)
    }

    /// How long the disk takes, as PostgreSQL's own program says.
    fn flush(&self) -> Result<String, Failure> {
        let program = postgres_program("pg_test_fsync").ok_or("pg_test_fsync is not installed")?;
        let file = self.0.directory().join("flush");
        let said = Command::new(program)
            .args(["-s", "1", "-f"])
            .arg(&file)
            .output()?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let line = said
            .lines()
            .find(|it| it.trim_start().starts_with("fdatasync"));
        let words = line.unwrap_or_default().split_whitespace().skip(1);
        Ok(words.collect::<Vec<_>>().join(" "))
    }
}

/// The numbers of a process behind its state: the parent's id comes first. Empty: it has ended.
fn stat(pid: u32) -> Vec<u64> {
    let text = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    let text = text.unwrap_or_default();
    let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
    let words = rest.split_whitespace().skip(1);
    words.map(|it| it.parse().unwrap_or(0)).collect()
}

/// Contenders that take turns, each with its own number of cycles.
struct Cycles {
    is_flushed: bool,
    tasks: usize,
    lanes: Vec<SqlLane>,
}

struct SqlLane {
    contender: Contender,
    block: Block,
    /// How many locks a cycle takes.
    locks: usize,
    /// Of each round, for one lock: µs, and bytes of WAL.
    times: Vec<f64>,
    wal: Vec<f64>,
}

const BARE: usize = 0;
const OURS: usize = 1;
const BATCH: usize = 3;

impl Cycles {
    async fn take(
        lab: &Lab,
        server: &Server,
        is_flushed: bool,
        tasks: usize,
    ) -> Result<Self, Failure> {
        let bare = Bare::new(server.connect(is_flushed).await?, false).await?;
        let pool = ours::pool(&server.url(is_flushed)).await?;
        let mut advisory = Vec::new();
        for _ in 0..tasks {
            advisory.push(Advisory::new(server.connect(is_flushed).await?).await?);
        }
        // As long as a round should last, by the bare statements on a disk of 1 ms.
        let cycles = |alone, together| if tasks == 1 { alone } else { together };
        let few = if is_flushed {
            cycles(50, 2)
        } else {
            cycles(200, 16)
        };
        let many = if is_flushed {
            cycles(50, 24)
        } else {
            cycles(200, 24)
        };
        let lane = |contender, tasks, cycles, locks| SqlLane {
            contender,
            block: Block { tasks, cycles },
            locks,
            times: Vec::new(),
            wal: Vec::new(),
        };
        let mut lanes = vec![
            lane(Contender::new("bare", &[], bare), tasks, few, 1),
            lane(
                Contender::new("dlock", &[], Confirmed(pool)),
                tasks,
                many,
                1,
            ),
            lane(
                Contender::new(
                    "advisory lock, a connection each",
                    &[],
                    AdvisoryKeys(advisory),
                ),
                tasks,
                many,
                1,
            ),
        ];
        if tasks > 1 {
            let together = Bare::new(server.connect(is_flushed).await?, true).await?;
            let contender = Contender::new("64 keys in a statement", &[], together);
            lanes.push(lane(contender, 1, many, TOGETHER));
        }
        let mut it = Self {
            is_flushed,
            tasks,
            lanes,
        };
        let control = server.connect(true).await?;
        let rounds = Rounds {
            most: lab.scale.pick(25, 7),
            within: Duration::from_secs(lab.scale.pick(60, 10)),
        };
        let mut progress = Progress::new(format!("postgres, {}", it.name()));
        for lane in &it.lanes {
            lane.contender.run(lane.block).await?; // rows, plans, memory
        }
        let (begun, mut round) = (Instant::now(), 0);
        while rounds.another(round, begun) {
            progress.tell(&format!("round {} of {}", round + 1, rounds.most));
            for place in order(it.lanes.len(), round) {
                if let Some(lane) = it.lanes.get_mut(place) {
                    lane.run(&control).await?;
                }
            }
            round += 1;
        }
        Ok(it)
    }

    fn name(&self) -> String {
        let flush = if self.is_flushed { "on" } else { "off" };
        let s = if self.tasks == 1 { "" } else { "s" };
        format!("flush {flush}, {} task{s}", self.tasks)
    }

    fn base(&self) -> usize {
        if self.tasks == 1 { BARE } else { BATCH }
    }

    /// The base's times divided by each contender's.
    fn rates(&self) -> Vec<Option<Quartiles>> {
        let rates = |lane: &SqlLane| lane.times.iter().map(|it| 1.0 / it).collect();
        let rates: Vec<Vec<f64>> = self.lanes.iter().map(rates).collect();
        ratios(&rates, self.base())
    }

    fn ours(&self) -> Option<Quartiles> {
        self.rates().get(OURS).copied()?
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let wal: Vec<Vec<f64>> = self.lanes.iter().map(|lane| lane.wal.clone()).collect();
        let wal_ratios = ratios(&wal, BARE);
        let target = match (self.tasks, self.is_flushed) {
            (1, true) => "≥ 0.85",
            (1, false) => "≥ 0.6",
            _ => "≥ 0.4",
        };
        let all = self
            .lanes
            .iter()
            .zip(self.rates())
            .zip(wal_ratios)
            .enumerate();
        all.map(|(place, ((lane, rate), wal_ratio))| {
            let of_ours = |text: &str| if place == OURS { text } else { NONE }.to_owned();
            vec![
                if self.is_flushed { "on" } else { "off" }.to_owned(),
                self.tasks.to_string(),
                lane.contender.name.to_owned(),
                spread(Quartiles::of(lane.times.clone()), 1),
                spread(rate, 2),
                of_ours(target),
                number(Quartiles::of(lane.wal.clone()).map(|it| it.median), 0),
                spread(wal_ratio, 2),
                of_ours("≤ 1.7"),
            ]
        })
        .collect()
    }
}

impl SqlLane {
    async fn run(&mut self, control: &Client) -> Result<(), Failure> {
        let before = wal(control).await?;
        let took = self.contender.run(self.block).await?;
        let written = wal(control).await? - before;
        let locks = real(self.block.count() * self.locks);
        self.times.push(took.wall.as_secs_f64() * 1e6 / locks);
        self.wal.push(written / locks);
        Ok(())
    }
}

/// Where the WAL ends, in bytes.
async fn wal(control: &Client) -> Result<f64, Failure> {
    let text = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8";
    Ok(control.query_one(text, &[]).await?.get(0))
}

/// What any lock in a table needs.
#[derive(Clone)]
struct Bare {
    client: Arc<Client>,
    take: Statement,
    give: Statement,
    is_together: bool,
}

impl Bare {
    async fn new(client: Arc<Client>, is_together: bool) -> Result<Self, Failure> {
        let table = format!("{SCHEMA}.bare");
        let (keys, gives) = if is_together {
            (
                "SELECT k, $2, now() + interval '10 s' FROM unnest($1::text[]) AS u(k)",
                "key = ANY ($1::text[])",
            )
        } else {
            ("VALUES ($1, $2, now() + interval '10 s')", "key = $1")
        };
        let take =
            format!("INSERT INTO {table} (key, holder, ends) {keys} ON CONFLICT (key) DO NOTHING");
        let give = format!("DELETE FROM {table} WHERE {gives} AND holder = $2");
        Ok(Self {
            take: client.prepare(&take).await?,
            give: client.prepare(&give).await?,
            client,
            is_together,
        })
    }
}

/// As long as an entry of dlock.
const HOLDER: &str = "x|1|0123456789012345678901234567890123456789012345678901234567890123456789";

impl Cycle for Bare {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        for statement in [&self.take, &self.give] {
            let done = if self.is_together {
                let keys: Vec<String> = (0..TOGETHER).map(|key| format!("many:{key}")).collect();
                self.client.execute(statement, &[&keys, &HOLDER]).await? == 64
            } else {
                self.client
                    .execute(statement, &[&format!("bare:{key}"), &HOLDER])
                    .await?
                    == 1
            };
            if !done {
                return Err("somebody else has the row".into());
            }
        }
        Ok(())
    }
}

#[derive(Clone)]
struct Advisory(Arc<Client>, Statement, Statement);

impl Advisory {
    async fn new(client: Arc<Client>) -> Result<Self, Failure> {
        let take = client.prepare("SELECT pg_advisory_lock($1)").await?;
        let give = client.prepare("SELECT pg_advisory_unlock($1)").await?;
        Ok(Self(client, take, give))
    }
}

/// A connection for each key.
#[derive(Clone)]
struct AdvisoryKeys(Vec<Advisory>);

impl Cycle for AdvisoryKeys {
    async fn cycle(&mut self, key: usize) -> Result<(), Failure> {
        let Advisory(client, take, give) = self.0.get(key).ok_or("a key needs a connection")?;
        let number = i64::try_from(key)?;
        client.query_one(take, &[&number]).await?;
        client.query_one(give, &[&number]).await?;
        Ok(())
    }
}

/// W4's hand-over between two processes, beside that of Redis. For so many ms a task holds the lock, and pauses.
fn handover(lab: &Lab, server: &Server, (hold, think): (u64, u64)) -> Result<Chapter, Failure> {
    let fleet = Fleet {
        processes: 2,
        tasks: 2,
        hold: Duration::from_millis(hold),
        think: Duration::from_millis(think),
        ramp: Duration::ZERO,
        length: Duration::from_millis(lab.scale.pick(1500, 800)),
    };
    let servers = [
        ("Redis", lab.url(), NONE),
        ("PostgreSQL, flush on", server.url(true), "≤ 5"),
        ("PostgreSQL, flush off", server.url(false), "≤ 3.5"),
    ];
    let rounds = Rounds {
        most: lab.scale.pick(9, 3),
        within: Duration::from_secs(120),
    };
    let mut progress = Progress::new("postgres, hand-over");
    let mut medians = vec![Vec::new(); servers.len()];
    let (begun, mut round) = (Instant::now(), 0);
    while rounds.another(round, begun) {
        progress.tell(&format!("round {} of {}", round + 1, rounds.most));
        for place in order(servers.len(), round) {
            let (Some((_, url, _)), Some(own)) = (servers.get(place), medians.get_mut(place))
            else {
                continue;
            };
            let passes = fleet.run_at(url, contention::OURS)?.passes;
            own.push(Quartiles::of(passes).map_or(f64::NAN, |it| it.median));
        }
        round += 1;
    }
    let rows = servers.iter().zip(&medians).zip(ratios(&medians, 0));
    let rows = rows.map(|(((name, _, target), own), ratio)| {
        let own = own.iter().copied().filter(|it| it.is_finite());
        vec![
            (*name).to_owned(),
            spread(Quartiles::of(own.collect()), 1),
            spread(ratio, 2),
            (*target).to_owned(),
        ]
    });
    Ok(Chapter {
        title: format!(
            "PostgreSQL: from the end of a turn to the next waiter's in another process, held for {hold} ms, asked for again after {think} ms"
        ),
        notes: vec![format!(
            "Rounds: {round}. No two held the lock at once: every turn was looked at."
        )],
        head: vec!["server", "p50, µs", "p50 / Redis", "target"],
        rows: rows.collect(),
        panels: Vec::new(),
    })
}

/// The server's share of a core while a process keeps locks for a ttl.
async fn renewals(server: &Server) -> Result<Chapter, Failure> {
    let (locks, ttl) = KEPT;
    let mut progress = Progress::new("postgres, renewals");
    let words = format!(
        "keeper ours {} {locks} {} {}",
        server.url(true),
        ttl.as_millis(),
        ttl.as_millis()
    );
    let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
    let mut keeper = Part::start(&words, &[])?;
    while !keeper.line("")?.starts_with("holds ") {
        progress.tell("locks are taken");
    }
    sleep(Duration::from_secs(1)).await; // until what the acquires left to do is done
    let before = server.cpu();
    keeper.tell("")?;
    keeper.line("used ")?;
    let used = server.cpu().saturating_sub(before);
    let held = keeper.line("held ")?;
    keeper.tell("")?;
    keeper.end()?;
    let share = used.as_secs_f64() / ttl.as_secs_f64() * 100.0;
    Ok(Chapter {
        title: format!("PostgreSQL: {locks} locks held by one process, ttl {ttl:?}, renewed"),
        notes: vec![format!(
            "{held} of them were held at the end. The CPU time of all the server's processes."
        )],
        head: vec!["server CPU, % of a core", "target"],
        rows: vec![vec![number(Some(share), 1), "≤ 5".to_owned()]],
        panels: Vec::new(),
    })
}
