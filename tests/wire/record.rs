//! Reads a server's MONITOR line by line, and finds out which script is which.

use std::time::Duration;

use dlock_harness::{Monitor, RedisServer, until};
use dlock_runtime::LockPool;

const CAP: Duration = Duration::from_secs(10);

/// One command that the server executed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// When it was executed, by the server's clock, in µs.
    pub(crate) at: u64,
    /// Whether a client sent it; otherwise a script executed it.
    pub(crate) by_client: bool,
    pub(crate) words: Vec<String>,
}

impl Line {
    /// Reads `1700000000.123456 [0 127.0.0.1:5000] "SET" "key"`. MONITOR escapes quotes inside a
    /// word; the words here have none.
    fn parse(line: &str) -> Self {
        let (head, words) = line.split_once("] ").expect(line);
        let (time, source) = head.split_once(" [").expect(line);
        let (seconds, micros) = time.split_once('.').expect(line);
        let seconds: u64 = seconds.parse().expect(line);
        let micros: u64 = micros.parse().expect(line);
        let within = words.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        let words = within.expect(line).split("\" \""); // the last may be empty
        Self {
            at: seconds * 1_000_000 + micros,
            by_client: !source.ends_with(" lua"),
            words: words.map(str::to_owned).collect(),
        }
    }

    pub(crate) fn names(&self, word: &str) -> bool {
        self.words.iter().any(|it| it == word)
    }

    /// Whether a script deletes the key, by whichever command the server has.
    pub(crate) fn deletes(&self, key: &str) -> bool {
        !self.by_client
            && match &self.words[..] {
                [command, keys @ ..] if command == "DEL" => keys.iter().any(|it| it == key),
                [command, it, ..] if ["DELEX", "DELIFEQ"].contains(&&**command) => it == key,
                _ => false,
            }
    }

    pub(crate) fn sets(&self, key: &str) -> bool {
        matches!(&self.words[..], [set, it, ..] if set == "SET" && it == key)
    }
}

/// All lines up to now.
pub(crate) async fn lines(monitor: &Monitor) -> Vec<Line> {
    let lines = monitor.settled().await;
    lines.iter().map(|line| Line::parse(line)).collect()
}

/// The lines that have arrived so far. Asks the server nothing, because that would add a line.
pub(crate) fn lines_so_far(monitor: &Monitor) -> Vec<Line> {
    let lines = monitor.lines();
    lines.iter().map(|line| Line::parse(line)).collect()
}

/// The kind of a client's call, by the shape of its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Acquire,
    Poll,
    Release,
    Cancel,
}

impl Call {
    /// The call of a script about one lock by a client.
    pub(crate) fn of(line: &Line) -> Option<Self> {
        let [how, _, keys, _, _, _, _, arguments @ ..] = &line.words[..] else {
            return None;
        };
        if !line.by_client || how != "EVALSHA" || keys != "4" {
            return None;
        }
        let (_secret, arguments) = arguments.split_last()?;
        match arguments {
            [_, may_queue] if may_queue == "1" => Some(Self::Poll),
            [_, _] => Some(Self::Release),
            [_, _, _, _] => Some(Self::Cancel),
            [_, _, _, _, _] => Some(Self::Acquire),
            _ => None,
        }
    }
}

/// The hashes of the scripts.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    pub(crate) acquire: String,
    pub(crate) renew: String,
    pub(crate) release: String,
    pub(crate) cancel: String,
}

impl Scripts {
    /// Makes the server know each script, and learns from the record which hash is which.
    pub(crate) async fn learn(server: &RedisServer, pool: &LockPool) -> Self {
        use_each(server, pool).await;
        let monitor = server.monitor();
        use_each(server, pool).await;
        let recorded = lines(&monitor).await;
        let mut hashes = recorded.iter().filter_map(Self::hash);
        let mut next = || hashes.next().expect("a script");
        let (acquire, renew, release) = (next(), next(), next());
        assert_eq!(next(), acquire, "the second acquire");
        let cancel = next();
        Self {
            acquire,
            renew,
            release,
            cancel,
        }
    }

    fn hash(line: &Line) -> Option<String> {
        let called = line.by_client && line.words[0] == "EVALSHA";
        called.then(|| line.words[1].clone())
    }

    /// The keys that the line names, if a client called this script with it.
    pub(crate) fn keys<'a>(script: &str, line: &'a Line) -> Option<&'a [String]> {
        if !line.by_client || line.words[0] != "EVALSHA" || line.words[1] != script {
            return None;
        }
        let count: usize = line.words[2].parse().unwrap();
        Some(&line.words[3..3 + count])
    }
}

/// Acquire, renew, release, acquire, cancel, in this order.
async fn use_each(server: &RedisServer, pool: &LockPool) {
    let guard = pool.lock("learn").acquire().await.unwrap();
    guard.extend(Duration::from_secs(40)).await.unwrap();
    guard.release().await.unwrap();
    drop(pool.lock("learn").acquire().await.unwrap());
    until("the clean-up is done", CAP, async || {
        server.pttl("lock:learn").await == -2
    })
    .await;
}
