//! A server, the processes that are started for it, and the measurements with them.

use std::io::{BufRead, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use dlock_runtime::{Config, LockPool};
use redis::aio::MultiplexedConnection;

use super::parts::{connect, now};
use super::{BODY, Failure, IDLE};

/// An otherwise idle server, and the processes that are started for it.
pub(crate) struct Lab {
    url: String,
    namespace: String,
    redis: MultiplexedConnection,
    pool: LockPool,
}

/// The measurements while a lock is passed back and forth.
pub(crate) struct Passed {
    pub(crate) times: Vec<u64>,
    pub(crate) turns: usize,
    /// How often the next holder was in the other process.
    pub(crate) crossings: usize,
    pub(crate) commands: usize,
    /// From the first body to the last.
    took: Duration,
}

impl Passed {
    pub(crate) fn pace(&self) -> u128 {
        self.turns as u128 * 1_000_000 / self.took.as_micros().max(1)
    }
}

impl Lab {
    pub(crate) async fn new(url: String) -> Result<Self, Failure> {
        let namespace = format!("handover-{}-{}:", std::process::id(), now());
        let config = Config::new(&*url).namespace(&*namespace);
        Ok(Self {
            pool: LockPool::connect(config).await?,
            redis: connect(&url, None).await?,
            namespace,
            url,
        })
    }

    fn start(&self, words: &[&str]) -> Result<Process, Failure> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .env("DLOCK_URL", &self.url)
            .env("DLOCK_NAMESPACE", &self.namespace)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let mut process = Process {
            child,
            stdin,
            lines: BufReader::new(stdout.ok_or("stdout is piped")?).lines(),
        };
        process.line("ready")?;
        Ok(process)
    }

    /// How long messages to another process take, in ns.
    pub(crate) async fn messages(&self, count: usize) -> Result<Vec<u64>, Failure> {
        println!("{count} messages …");
        let mut redis = self.redis.clone();
        let mut listener = self.start(&["listener", &count.to_string()])?;
        for _ in 0..count {
            tokio::time::sleep(BODY).await;
            let publish = redis::cmd("PUBLISH")
                .arg(format!("{}messages", self.namespace))
                .arg(now())
                .to_owned();
            publish.exec_async(&mut redis).await?;
        }
        let mut times = Vec::new();
        for _ in 0..count {
            times.push(listener.line("after ")?.parse()?);
        }
        listener.end()?;
        Ok(times)
    }

    /// Two processes take turns, each with this many waiting tasks.
    pub(crate) async fn pass(
        &self,
        tasks: usize,
        rounds: usize,
        body: Duration,
    ) -> Result<Passed, Failure> {
        println!("{rounds} hand-overs with {tasks} waiting in each process …");
        let turns = (rounds / 2).to_string();
        let words = [
            "player",
            &tasks.to_string(),
            &turns,
            &body.as_millis().to_string(),
        ];
        let mut players = [self.start(&words)?, self.start(&words)?];
        // No task begins before both processes are in the queue.
        let held = self.pool.lock("key").acquire().await?;
        for player in &mut players {
            player.go()?;
        }
        for player in &mut players {
            player.line("waiting")?;
        }
        self.until_queued(players.len()).await?;
        let before = self.commands().await?;
        held.release().await?;
        let mut all = Vec::new();
        for (who, mut player) in players.into_iter().enumerate() {
            loop {
                let line = player.line("")?;
                let Some(turn) = Turn::parse(&line, who) else {
                    break;
                };
                all.push(turn);
            }
            player.end()?;
        }
        let commands = self.commands().await? - before;
        all.sort_by_key(|turn| turn.fence);
        let crossings = all.windows(2).filter(|pair| pair[0].who != pair[1].who);
        let times: Vec<u64> = crossings
            .map(|pair| pair[1].begin.saturating_sub(pair[0].end))
            .collect();
        let ends = all.first().zip(all.last());
        let took = ends.map_or(0, |(first, last)| last.end - first.begin);
        Ok(Passed {
            crossings: times.len(),
            // Leaves out the first turns, in which the connections start.
            times: times.into_iter().skip(rounds / 20).collect(),
            turns: all.len(),
            commands,
            took: Duration::from_nanos(took),
        })
    }

    async fn until_queued(&self, processes: usize) -> Result<(), Failure> {
        let queue = format!("{0}@w:{{{0}key}}", self.namespace);
        let mut redis = self.redis.clone();
        loop {
            let places: usize = redis::cmd("ZCARD")
                .arg(&queue)
                .query_async(&mut redis)
                .await?;
            if places >= processes {
                return Ok(());
            }
            tokio::time::sleep(BODY).await;
        }
    }

    /// The commands of a process whose tasks wait for a lock that is never released.
    pub(crate) async fn idle(&self, tasks: usize) -> Result<usize, Failure> {
        println!("{IDLE:?} of waiting, {tasks} in one process …");
        let mut redis = self.redis.clone();
        let key = format!("{}key", self.namespace);
        let held = redis::cmd("SET")
            .arg(&key)
            .arg("held by nobody that releases it")
            .arg("PX")
            .arg(60_000)
            .to_owned();
        held.exec_async(&mut redis).await?;
        let mut player = self.start(&["player", &tasks.to_string(), &tasks.to_string(), "0"])?;
        player.go()?;
        player.line("waiting")?;
        tokio::time::sleep(Duration::from_millis(500)).await; // the first acquire is not counted
        let before = self.commands().await?;
        tokio::time::sleep(IDLE).await;
        let commands = self.commands().await? - before;
        redis::cmd("DEL").arg(&key).exec_async(&mut redis).await?;
        while Turn::parse(&player.line("")?, 0).is_some() {}
        player.end()?;
        Ok(commands)
    }

    /// The number of script calls: a lock sends nothing else once its connections are set up.
    async fn commands(&self) -> Result<usize, Failure> {
        let mut redis = self.redis.clone();
        let info: String = redis::cmd("INFO")
            .arg("commandstats")
            .query_async(&mut redis)
            .await?;
        let calls = |name: &str| -> usize {
            let line = info.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split(',').next());
            number.and_then(|it| it.parse().ok()).unwrap_or(0)
        };
        Ok(calls("cmdstat_evalsha:calls=") + calls("cmdstat_eval:calls="))
    }

    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        let mut redis = self.redis.clone();
        let counter = format!("{}@fence", self.namespace);
        redis::cmd("DEL")
            .arg(counter)
            .exec_async(&mut redis)
            .await?;
        Ok(())
    }
}

/// One body: its process, and when it began and ended, in ns.
struct Turn {
    who: usize,
    fence: u64,
    begin: u64,
    end: u64,
}

impl Turn {
    fn parse(line: &str, who: usize) -> Option<Self> {
        let mut numbers = line.strip_prefix("turn ")?.split(' ').map(str::parse);
        let mut number = || numbers.next()?.ok();
        Some(Self {
            who,
            fence: number()?,
            begin: number()?,
            end: number()?,
        })
    }
}

/// Another process of this program.
struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// The rest of the next line, which has to begin with `prefix`.
    fn line(&mut self, prefix: &str) -> Result<String, Failure> {
        let line = self.lines.next().ok_or("a process ended too soon")??;
        let rest = line
            .strip_prefix(prefix)
            .ok_or("a process said something else")?;
        Ok(rest.to_owned())
    }

    fn go(&mut self) -> Result<(), Failure> {
        let stdin = self.stdin.as_mut().ok_or("stdin is piped")?;
        Ok(stdin.write_all(b"go\n")?)
    }

    fn end(mut self) -> Result<(), Failure> {
        drop(self.stdin.take());
        let status = self.child.wait()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("a process failed: {status}").into())
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended already
        let _ = self.child.wait();
    }
}
