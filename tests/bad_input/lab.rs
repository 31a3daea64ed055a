//! Runs one attempt that must fail, and checks what all failures have in common: no body runs, and
//! the error comes in time.

use std::error::Error;
use std::fmt::Debug;
use std::time::{Duration, Instant};

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, Key, LockError, LockPool, NodeStanding, Refusal, Wait};
use redis::FromRedisValue;

/// Allowed beyond `wait` and one `command_timeout`, for a loaded machine.
const SLACK: Duration = Duration::from_secs(5);

pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The server that a pool takes its locks from, or the nodes of a quorum. What the pool leaves there
/// although it got no lock: without scripts it draws a fence before it looks.
pub(crate) struct Servers(pub(crate) Vec<RedisServer>, pub(crate) Option<&'static str>);

/// The longest lease at nodes: they vote so long after their start.
const OF_NODES: Duration = Duration::from_secs(2);

impl Servers {
    pub(crate) fn of(server: RedisServer) -> Self {
        Self(vec![server], None)
    }

    pub(crate) async fn one() -> (Self, LockPool) {
        let server = RedisServer::start();
        let pool = LockPool::connect(patient(server.url())).await.unwrap();
        (Self::of(server), pool)
    }

    /// The pool uses no scripts.
    pub(crate) async fn plain() -> (Self, LockPool) {
        let server = RedisServer::start();
        let config = patient(server.url()).without_scripts();
        let pool = LockPool::connect(config).await.unwrap();
        (Self(vec![server], Some("lock:@fence")), pool)
    }

    /// All of them vote.
    pub(crate) async fn three() -> (Self, LockPool) {
        let servers: Vec<_> = (0..3).map(|_| RedisServer::start()).collect();
        let config = Config::redlock(servers.iter().map(RedisServer::url))
            .connect_timeout(ms(20_000))
            .command_timeout(ms(2_500))
            .max_ttl(OF_NODES)
            .default_ttl(OF_NODES);
        let pool = LockPool::connect(config).await.unwrap();
        until("all nodes vote", LONG, async || {
            let nodes = pool.status().unwrap().nodes;
            nodes.iter().all(|it| it.standing == NodeStanding::Votes)
        })
        .await;
        (Self(servers, None), pool)
    }

    /// At each of them.
    pub(crate) async fn cmd(&self, words: &[&str]) {
        for server in &self.0 {
            server.cmd(words).await;
        }
    }

    /// The same answer of each of them.
    pub(crate) async fn ask<T: FromRedisValue + PartialEq + Debug>(&self, words: &[&str]) -> T {
        let first = self.0[0].ask(words).await;
        for server in &self.0[1..] {
            assert_eq!(server.ask::<T>(words).await, first, "{words:?}");
        }
        first
    }

    /// The keys, without what a pool leaves, and what a node keeps for seconds: its quorum, and who
    /// asked for the lock.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let mut all = Vec::new();
        for server in &self.0 {
            all.extend(server.keys().await);
        }
        all.retain(|it| it != "lock:@quorum" && !it.starts_with("lock:@h:"));
        all.retain(|it| Some(it.as_str()) != self.1);
        all.sort();
        all.dedup();
        all
    }
}

/// Makes a test of a case, with one server and with the nodes of a quorum; and of some without
/// scripts.
macro_rules! with_one_and_three {
    ($($case:ident),* $(,)? $(; without_scripts: $($plain:ident),* $(,)?)?) => {
        $(
            mod $case {
                #[tokio::test]
                async fn one_server() {
                    let (servers, pool) = crate::lab::Servers::one().await;
                    super::$case(&servers, &pool).await;
                }

                #[tokio::test]
                async fn three_nodes() {
                    let (servers, pool) = crate::lab::Servers::three().await;
                    super::$case(&servers, &pool).await;
                }
            }
        )*
        $(
            mod without_scripts {
                $(
                    #[tokio::test]
                    async fn $plain() {
                        let (servers, pool) = crate::lab::Servers::plain().await;
                        super::$plain(&servers, &pool).await;
                    }
                )*
            }
        )?
    };
}
pub(crate) use with_one_and_three;

/// A pool that has not connected yet.
pub(crate) async fn lazy(url: impl Into<String>) -> LockPool {
    LockPool::connect(Config::new(url).lazy()).await.unwrap()
}

/// Tries to run a body under `lock:k`: it does not run, and the error comes in time.
pub(crate) async fn fails(pool: &LockPool, wait: Wait) -> LockError {
    let (mut ran, begun) = (false, Instant::now());
    let outcome = pool.lock("k").wait(wait).run(async |_| ran = true).await;
    let took = begun.elapsed();
    assert!(!ran, "the body was run");
    let longest = match wait {
        Wait::For(wait) => wait,
        _ => Duration::ZERO,
    };
    assert!(took <= longest + ms(500) + SLACK, "{wait:?} took {took:?}");
    let error = outcome.unwrap_err();
    assert_eq!(error.key().map(Key::as_str), Some("lock:k"), "{error:?}");
    error
}

/// As [`fails`], with an error that waiting can't change: it is returned without a wait.
pub(crate) async fn fails_at_once(pool: &LockPool) -> LockError {
    let begun = Instant::now();
    let error = fails(pool, Wait::For(LONG)).await;
    assert!(begun.elapsed() < ms(500) + SLACK, "{:?}", begun.elapsed());
    error
}

/// As [`fails`], with an error that may pass: the attempt goes on until the wait is over.
pub(crate) async fn fails_after_its_wait(pool: &LockPool) -> LockError {
    let (wait, begun) = (ms(400), Instant::now());
    let error = fails(pool, Wait::For(wait)).await;
    assert!(
        begun.elapsed() >= wait,
        "gave up after {:?}",
        begun.elapsed()
    );
    error
}

#[track_caller]
pub(crate) fn refused(error: &LockError, expected: Refusal, says: &str) {
    match error {
        LockError::Refused { reason, .. } => assert_eq!(*reason, expected, "{error:?}"),
        other => panic!("not refused: {other:?}"),
    }
    assert!(error.to_string().contains(says), "{error}");
}

#[track_caller]
pub(crate) fn unavailable(error: &LockError) {
    assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
    for says in [
        "check that it runs, its address, and the network",
        " (redis",
    ] {
        assert!(error.to_string().contains(says), "{error}");
    }
    let source = error.source().unwrap().to_string();
    let words = source.split(|c: char| !(c.is_alphanumeric() || c == '.'));
    let is_ragged = |word: &&str| {
        word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.') && word.ends_with('s')
    };
    assert!(!words.clone().any(|word| is_ragged(&word)), "{source}");
}

#[track_caller]
pub(crate) fn misconfigured(error: &LockError, says: &str) {
    assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    assert!(error.to_string().contains(says), "{error}");
}

/// For a server that answers, on a machine that may stall for a second or two.
pub(crate) fn patient(url: impl Into<String>) -> Config {
    Config::new(url)
        .connect_timeout(ms(20_000))
        .command_timeout(ms(2_500))
}

/// Connects to a server that refuses, which must fail well before the `connect_timeout`.
pub(crate) async fn answers_no(url: impl Into<String>) -> LockError {
    let begun = Instant::now();
    let error = LockPool::connect(patient(url)).await.unwrap_err();
    let took = begun.elapsed();
    assert!(took <= ms(2_500) + SLACK, "{took:?}");
    error
}

/// Connects, which must fail within the `connect_timeout` of 1 s.
pub(crate) async fn connecting_fails(url: impl Into<String>) -> LockError {
    let begun = Instant::now();
    let error = LockPool::connect(Config::new(url)).await.unwrap_err();
    let took = begun.elapsed();
    assert!(took <= ms(1000) + SLACK, "{took:?}");
    error
}

pub(crate) async fn nothing_left(server: &RedisServer) {
    assert_eq!(server.keys().await, Vec::<String>::new());
}

/// A waiter for `lock:k` with a long wait.
pub(crate) fn waiter(pool: &LockPool) -> tokio::task::JoinHandle<Result<u8, LockError>> {
    tokio::spawn(pool.lock("k").ttl(LONG).wait(LONG).run(async |_| 7))
}
