//! Bounds: how long one script blocks the server, by the server's own account (SLOWLOG), for queues
//! of waiters of each kind that are silent, without a connection, or alive.
//!
//! The waiters are copies of one dlock waiter's queue entry, which this program puts before it:
//! 50,000 real waiters would dominate the measurement.

use std::time::{Duration, Instant};

use dlock_runtime::{Config, LockPool, LockRequest};
use redis::aio::MultiplexedConnection;

use crate::Failure;
use crate::chapter::{Chapter, Panel, Series};
use crate::contenders::ours;
use crate::lab::{self, Lab};
use crate::progress::Progress;
use crate::statistics::real;

const LEASE: Duration = Duration::from_secs(600);
const QUEUE: &str = "lock:@w:{lock:bounds}";
const ALIVE: &str = "lock:@a:{lock:bounds}";

/// Copies a queue entry and puts the copies before all others. They differ in the time at which
/// their waiters began to wait.
const CROWD: &str = "
    local place = ARGV[4]
    local state, future = ARGV[2], string.format('%.0f', redis.call('TIME')[1] * 1000000 + 3600000000)
    if state ~= 'silent' then
      place = string.gsub(place, '@grant:%x+', '@grant:' .. string.rep(state == 'alive' and 'a' or 'd', 32))
    end
    for i = tonumber(ARGV[1]), tonumber(ARGV[3]) do
      local copy = string.gsub(place, '%d+$', i)
      redis.call('ZADD', KEYS[1], i, copy)
      redis.call('ZADD', KEYS[2], state == 'silent' and 1 or future, copy)
    end
    redis.call('PEXPIRE', KEYS[1], 600000)
    redis.call('PEXPIRE', KEYS[2], 600000)";

type BoundKind = (&'static str, fn(LockRequest) -> LockRequest);

/// The kind that is asked for, and a kind whose holder excludes it.
const KINDS: [(BoundKind, BoundKind); 5] = [
    (("exclusive", |it| it), ("", |it| it)),
    (("read", LockRequest::read), ("", LockRequest::write)),
    (("write", LockRequest::write), ("", LockRequest::write)),
    (
        ("permits = 1", |it| it.permits(1)),
        ("", |it| it.permits(1)),
    ),
    (
        ("owner", |it| it.reentrant().owner("a")),
        ("", |it| it.reentrant().owner("b")),
    ),
];

const STATES: [&str; 3] = ["silent", "disconnected", "alive"];

pub(crate) async fn chapter(lab: &Lab) -> Result<Chapter, Failure> {
    let numbers: &[u32] = lab.scale.pick(&[10, 1_000, 10_000, 50_000], &[10, 1_000]);
    let rounds = lab.scale.pick(3, 1);
    let mut progress = Progress::new("bounds");
    let mut place = BoundPlace::new(lab).await?;
    let (mut rows, mut panels) = (Vec::new(), Vec::new());
    for state in STATES {
        let mut series = Vec::new();
        for (kind, against) in KINDS {
            let mut bars = Vec::new();
            for &number in numbers {
                progress.tell(&format!("{} behind {number} {state}", kind.0));
                let (mut release, mut attempt) = (Scripts::NONE, Scripts::NONE);
                for _ in 0..rounds {
                    release = release.or(place.release(kind, against, state, number).await?);
                    attempt = attempt.or(place.attempt(kind, state, number).await?);
                }
                rows.push(vec![
                    kind.0.to_owned(),
                    format!("{number} {state}"),
                    release.longest.to_string(),
                    release.scripts.to_string(),
                    attempt.longest.to_string(),
                    attempt.scripts.to_string(),
                ]);
                bars.push(Some(real(release.longest) / 1e3));
            }
            series.push(Series {
                name: kind.0.to_owned(),
                bars,
            });
        }
        panels.push(Panel {
            title: format!("Bounds: longest script of a release, ms; the queue is {state}"),
            groups: numbers.iter().map(ToString::to_string).collect(),
            series,
        });
    }
    Ok(Chapter {
        title: "Bounds: the longest script, by the server's account".to_owned(),
        notes: vec![
            "SLOWLOG of each EVALSHA, so without the client and the network. A release of a lock that so many wait for, and one that waits \
                 behind them, until that one has it, or, where all are alive, the first have it; and a try at a free lock with such a queue. Silent: \
                 no sign of life for 3.5 s. Deaf: their connection has ended, and nobody knows yet. Alive: somebody hears of each grant."
                .to_owned(),
            format!(
                "SLOWLOG is by the clock, so it counts what the machine did meanwhile; the figure is that of the best of {rounds} rounds. The pause between two scripts is everybody's. A queue is of as many places as waiters only for `fair` and the kinds with \
             many holders; without, a process has one."
            ),
        ],
        head: vec![
            "kind",
            "behind",
            "release: longest, µs",
            "scripts",
            "try: longest, µs",
            "scripts",
        ],
        rows,
        panels,
    })
}

/// A writer's entry as a reader's, or owner `c`'s entry as owner `a`'s.
fn of_kind(place: &str, kind: BoundKind) -> String {
    match kind.0 {
        "read" => place.replacen("1|w|", "1|r|", 1),
        "owner" => place.replacen("|c|", "|a|", 1),
        _ => place.to_owned(),
    }
}

/// An entry as another process has it: of its own, a pool knows which ones wait.
fn of_another_process(place: &str) -> Option<String> {
    let mut fields: Vec<_> = place.splitn(4, '|').collect();
    let token = fields.get_mut(2)?;
    let renamed = format!("0123456789abcdef-{}", token.split_once('-')?.1);
    *token = &renamed;
    Some(fields.join("|"))
}

/// A SLOWLOG entry: number, time, µs, words, client address, client name.
type Entry = (u64, u64, usize, Vec<redis::Value>, String, String);

/// What the server says about scripts: the longest one's time from SLOWLOG, and the number of
/// calls.
struct Scripts {
    longest: usize,
    scripts: usize,
}

impl Scripts {
    const NONE: Self = Self {
        longest: usize::MAX,
        scripts: 0,
    };

    /// Keeps the round with the shorter time: SLOWLOG also counts the time that the system took
    /// from the server's core.
    fn or(self, other: Self) -> Self {
        if other.longest < self.longest {
            other
        } else {
            self
        }
    }
}

struct BoundPlace {
    pool: LockPool,
    redis: MultiplexedConnection,
    /// Subscribes to the channel that the copies in the state "alive" name.
    _listener: MultiplexedConnection,
}

impl BoundPlace {
    async fn new(lab: &Lab) -> Result<Self, Failure> {
        let url = lab.url();
        let pool = LockPool::connect(ours::patient(Config::new(&url))).await?;
        let mut listener = lab::connect(&url).await?;
        let channel = format!("lock:@grant:{}", "a".repeat(32));
        listener.subscribe(channel).await?;
        let mut redis = lab::connect(&url).await?;
        for (setting, value) in [
            ("slowlog-log-slower-than", 20),
            ("slowlog-max-len", 100_000),
        ] {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg(setting).arg(value);
            set.exec_async(&mut redis).await?;
        }
        Ok(Self {
            pool,
            redis,
            _listener: listener,
        })
    }

    fn lock(&self, kind: BoundKind) -> LockRequest {
        kind.1(self.pool.lock("bounds").ttl(LEASE))
    }

    /// Times the release of a lock for which copies and, behind them, one real waiter queue.
    async fn release(
        &mut self,
        kind: BoundKind,
        against: BoundKind,
        state: &str,
        number: u32,
    ) -> Result<Scripts, Failure> {
        let held = self.lock(against).acquire().await?;
        let waiter = tokio::spawn(self.lock(kind).acquire());
        let place = self.queued().await?;
        self.crowd(&place, state, number).await?;
        self.reset().await?;
        held.release().await?;
        if state == "alive" {
            // Only the first entry is granted, except that all readers, or all entries of one
            // owner, are. The copies don't confirm their grants.
            let all = matches!(kind.0, "read" | "owner");
            let left = if all { 0 } else { u64::from(number) };
            self.until_queued(|places| places <= left).await?;
            waiter.abort();
        } else {
            drop(waiter.await??);
        }
        self.told().await
    }

    /// Times an attempt to take a free lock that has a queue of copies.
    async fn attempt(
        &mut self,
        kind: BoundKind,
        state: &str,
        number: u32,
    ) -> Result<Scripts, Failure> {
        let held = self.lock(kind).acquire().await?;
        let against = match kind.0 {
            "read" => self.pool.lock("bounds").write(),
            "owner" => self.pool.lock("bounds").reentrant().owner("c"),
            _ => self.lock(kind),
        };
        let waiter = tokio::spawn(against.ttl(LEASE).acquire());
        let place = self.queued().await?;
        waiter.abort();
        self.until_queued(|places| places == 0).await?;
        held.release().await?;
        let place = of_kind(&place, kind);
        self.crowd(&place, state, number).await?;
        self.reset().await?;
        let guard = self.lock(kind).try_acquire().await?;
        let told = self.told().await;
        drop(guard);
        told
    }

    /// The queue entry of the only waiter.
    async fn queued(&mut self) -> Result<String, Failure> {
        self.until_queued(|places| places == 1).await?;
        let mut ask = redis::cmd("ZRANGE");
        let places: Vec<String> = ask
            .arg(QUEUE)
            .arg(0)
            .arg(0)
            .query_async(&mut self.redis)
            .await?;
        Ok(places.into_iter().next().ok_or("nobody waits any more")?)
    }

    async fn crowd(&mut self, place: &str, state: &str, number: u32) -> Result<(), Failure> {
        let place = of_another_process(place).ok_or("a queue entry has another form now")?;
        for first in (1..=number).step_by(1_000) {
            let mut call = redis::cmd("EVAL");
            call.arg(CROWD).arg(2).arg(QUEUE).arg(ALIVE);
            call.arg(first)
                .arg(state)
                .arg(number.min(first + 999))
                .arg(&place);
            call.exec_async(&mut self.redis).await?;
        }
        Ok(())
    }

    async fn until_queued(&mut self, is_it: impl Fn(u64) -> bool) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let mut ask = redis::cmd("ZCARD");
            if is_it(ask.arg(QUEUE).query_async(&mut self.redis).await?) {
                return Ok(());
            }
            if begun.elapsed() > Duration::from_secs(60) {
                return Err("a queue did not come to what it should be".into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        let mut reset = redis::pipe();
        reset.cmd("SLOWLOG").arg("RESET");
        reset.cmd("CONFIG").arg("RESETSTAT");
        Ok(reset.exec_async(&mut self.redis).await?)
    }

    /// Reads the figures, and clears the server for the next measurement.
    async fn told(&mut self) -> Result<Scripts, Failure> {
        let mut ask = redis::cmd("SLOWLOG");
        let entries: Vec<Entry> = ask.arg("GET").arg(-1).query_async(&mut self.redis).await?;
        let is_script = |entry: &&Entry| {
            let name = entry
                .3
                .first()
                .cloned()
                .map(redis::from_redis_value::<String>);
            matches!(name, Some(Ok(name)) if name.starts_with("EVAL"))
        };
        // SLOWLOG has no script that took less than 20 µs.
        let longest = entries.iter().filter(is_script).map(|it| it.2).max();
        let calls = self.calls().await?;
        redis::cmd("FLUSHALL").exec_async(&mut self.redis).await?;
        Ok(Scripts {
            longest: longest.unwrap_or(20),
            scripts: calls,
        })
    }

    async fn calls(&mut self) -> Result<usize, Failure> {
        let mut info = redis::cmd("INFO");
        let info: String = info
            .arg("commandstats")
            .query_async(&mut self.redis)
            .await?;
        let lines = info
            .lines()
            .filter_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        let calls = lines.filter_map(|rest| rest.split(',').next()?.parse::<usize>().ok());
        Ok(calls.sum())
    }
}
