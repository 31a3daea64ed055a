//! How a pool is configured: the builder a user sees, and the settings that come out once checked.
//!
//! Every bad value is reported in one error, none is silently replaced. `environment` reads the same
//! settings from `DLOCK_*` variables, `address` reads the URL, `check` looks at all, `settings` is what comes out.
//!
//! Never in this folder: a default that replaces a bad value.

mod address;
mod check;
mod environment;
mod settings;

use std::fmt;
use std::time::Duration;

use super::handoff::Handoff;
use super::lock_order::LockOrder;
use super::release::Release;
use super::wait::Wait;

pub(crate) use address::{Address, Endpoint, RedisAddress, Secret};
pub(crate) use settings::Settings;

/// How a [`LockPool`](crate::LockPool) is configured.
///
/// A URL turns into one, so `init("redis://127.0.0.1:6379")` is enough to start with. Nothing is
/// checked before the pool is made; then every bad setting is named in one [`LockError::Config`](crate::LockError::Config).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
/// use dlock_runtime::{Config, LockPool};
/// use std::time::Duration;
///
/// let config = Config::new("memory://")
///     .namespace("shop:lock:")
///     .default_ttl(Duration::from_secs(10))
///     .default_wait(Duration::from_secs(1));
/// let pool = LockPool::connect(config).await?;
///
/// let error = LockPool::connect(Config::new("memory://").default_ttl(Duration::ZERO)).await;
/// assert!(error.unwrap_err().to_string().contains("default_ttl"));
/// # drop(pool); Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a configuration does nothing until a pool is made of it"]
pub struct Config {
    url: String,
    namespace: String,
    default_ttl: Duration,
    default_wait: Wait,
    release: Release,
    connections: usize,
    connect_timeout: Duration,
    command_timeout: Duration,
    poll_interval: Option<Duration>,
    health_check_interval: Duration,
    max_in_flight: Option<usize>,
    repair_missing_ttl: Option<Duration>,
    holder_name: Option<String>,
    grant_secret: Option<Secret>,
    lazy: bool,
    lock_order: LockOrder,
    local_handoff: (usize, Duration),
    clock_margin: usize,
}

impl Config {
    /// The defaults, for the server at `url`.
    ///
    /// `redis://[user:password@]host[:port][/db]`, `redis+unix:///path?db=0&user=…&pass=…` or
    /// `memory://`, which protects one process only and is meant for development and tests.
    /// `valkey` may stand for `redis`. `?protocol=resp2` keeps a Redis connection from asking for RESP3.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            namespace: "lock:".to_owned(),
            default_ttl: Duration::from_secs(30),
            default_wait: Wait::For(Duration::from_secs(3)),
            release: Release::Confirmed,
            connections: 1,
            connect_timeout: Duration::from_secs(1),
            command_timeout: Duration::from_millis(500),
            poll_interval: None,
            health_check_interval: Duration::from_secs(15),
            max_in_flight: None,
            repair_missing_ttl: None,
            holder_name: None,
            grant_secret: None,
            lazy: false,
            lock_order: LockOrder::default(),
            local_handoff: (Handoff::DEFAULT.most.into(), Handoff::DEFAULT.within),
            clock_margin: 1,
        }
    }

    /// What stands in front of every key on the server. Default `lock:`.
    ///
    /// All programs that share locks must agree on it. No braces, bars, `@` or control characters, at most 128 bytes. Let
    /// none begin with another one: `shop:7` in `lock:` and `7` in `lock:shop:` are one lock with two queues, so a pool
    /// refuses the keys that lie in the namespace of another live pool of the process.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// The lease of a lock that does not say its `ttl`: 10 ms to 24 h. Default 30 s.
    pub fn default_ttl(mut self, ttl: Duration) -> Self {
        self.default_ttl = ttl;
        self
    }

    /// How long to wait where a lock does not say its `wait`. Default 3 s.
    ///
    /// A function with `on_busy = "skip"` tries once instead, if it does not say its own.
    pub fn default_wait(mut self, wait: impl Into<Wait>) -> Self {
        self.default_wait = wait.into();
        self
    }

    /// Whether the end of a locked body waits for the answer to its release, and fails where that found nothing. Default
    /// [`Release::Confirmed`]; a lock's own `release` comes first.
    pub fn release(mut self, release: Release) -> Self {
        self.release = release;
        self
    }

    /// How many connections each tokio runtime keeps, 1 to 64; keys are spread over them. Default 1.
    ///
    /// They are multiplexed, so one serves hundreds of tasks at once; a second one pays above some
    /// 500 concurrent tasks.
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// How long connecting may take, handshake included. Default 1 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How long one answer of the server may take. Default 500 ms.
    ///
    /// A command without an answer by then counts as unclear, and is cleaned up after.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long a waiter sleeps between two looks at a lock that somebody else holds, at most: 1 ms to
    /// 1 s. A lease that ends sooner is looked at when it ends.
    ///
    /// Where the server can tell a waiter that the lock is its own (RESP3), this is a safety net only,
    /// 1 s by default. Where it can't (RESP2, a proxy, an ACL without the channel) looking is all there
    /// is, every 100 ms by default. What is set here counts for both.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }

    /// How often connections that have been idle for as long are asked whether they still work. Default
    /// 15 s.
    ///
    /// So a connection that died without a word is replaced before it is needed.
    pub fn health_check_interval(mut self, interval: Duration) -> Self {
        self.health_check_interval = interval;
        self
    }

    /// How many commands one connection carries at once, at least 1. Default: no limit.
    ///
    /// What comes on top waits, within its `command_timeout`. With a limit, each command goes by itself: none are combined.
    pub fn max_in_flight(mut self, commands: usize) -> Self {
        self.max_in_flight = Some(commands);
        self
    }

    /// Gives a key that was left without a time to live this lease, instead of refusing it.
    ///
    /// Such a key is what a program leaves that died between `SETNX` and `EXPIRE`; it would block the
    /// lock for ever. Without this setting it is [`Refusal::NoTtl`](crate::Refusal::NoTtl), because
    /// its owner may still be at work. Give at least the longest lease of anybody who uses the key: if
    /// someone took the time to live off a key that is held, its holder counts on its own ttl.
    pub fn repair_missing_ttl(mut self, ttl: Duration) -> Self {
        self.repair_missing_ttl = Some(ttl);
        self
    }

    /// How this process is called where its locks are in somebody's way. Default: the host's name.
    ///
    /// Printable text, at most 255 bytes.
    pub fn holder_name(mut self, name: impl Into<String>) -> Self {
        self.holder_name = Some(name.into());
        self
    }

    /// What the programs of the fleet prove to each other with that a message about a grant is theirs. Default: something
    /// derived from the URL's password; without a password nothing.
    ///
    /// A waiter believes such a message at once, so it must not be anybody's who may `PUBLISH`. Give the same text in all
    /// programs that share locks: at least 16 bytes, better 32 random ones, where they log in with different passwords, or
    /// with none. A message that is not proved costs one look at the server, ten a second at most for each place
    /// in a queue. It is never shown.
    pub fn grant_secret(mut self, secret: impl Into<String>) -> Self {
        self.grant_secret = Some(Secret::new(secret.into()));
        self
    }

    /// Connect when the first lock is asked for, not when the pool is made.
    ///
    /// A wrong address is then found by the first caller instead of at start-up.
    pub fn lazy(mut self) -> Self {
        self.lazy = true;
        self
    }

    /// What becomes of locks that are taken one inside the other, in one order here and in the other there.
    /// Default [`LockOrder::Warn`] in a debug build, else [`LockOrder::Off`].
    pub fn lock_order(mut self, lock_order: LockOrder) -> Self {
        self.lock_order = lock_order;
        self
    }

    /// How often in a row, and for how long after the server's grant, a lock goes from its holder to the next waiter
    /// of this process without a command. Default 16 times, within 10 ms; `0` asks the server each time.
    ///
    /// Many tasks of one process that want the same lock are served several times faster so; waiters of other
    /// processes wait that much longer for their turn. At most 1,023 times and 1 s, and never for longer than a tenth
    /// of the ttl. A lock that is `fair`, has a `min_hold` or several holders is never handed on.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    /// use std::time::Duration;
    ///
    /// let turns_by_the_server = Config::new("memory://").local_handoff(0, Duration::ZERO);
    /// let pool = LockPool::connect(turns_by_the_server).await?;
    /// # drop(pool); Ok(()) }
    /// ```
    pub fn local_handoff(mut self, most: usize, within: Duration) -> Self {
        self.local_handoff = (most, within);
        self
    }

    /// By how many per cent the server's clock and this machine's may run at different rates while a lease lasts: 1 to
    /// 20. Default 1.
    ///
    /// Each holder counts on so much less of its lease, and on 2 ms less besides. Clocks that are slewed within some
    /// thousand ppm need no more than the default. chrony's own default slews by up to 8.33 % (`maxslewrate`), which takes 8
    /// here for the server's clock alone, and 16 for both: rather set `maxslewrate 4000` on all machines. A pool measures the
    /// server's clock, and says in the log when it runs outside this margin.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    /// use std::time::Duration;
    ///
    /// let pool = LockPool::connect(Config::new("memory://").clock_margin(16)).await?;
    /// let lock = pool.lock("report").ttl(Duration::from_secs(10)).acquire().await?;
    /// assert!(lock.remaining() < Duration::from_millis(8_400));
    ///
    /// let error = LockPool::connect(Config::new("memory://").clock_margin(0)).await.unwrap_err();
    /// assert!(error.to_string().contains("clock_margin"));
    /// # Ok(()) }
    /// ```
    pub fn clock_margin(mut self, percent: usize) -> Self {
        self.clock_margin = percent;
        self
    }
}

impl From<&str> for Config {
    fn from(url: &str) -> Self {
        Config::new(url)
    }
}

impl From<String> for Config {
    fn from(url: String) -> Self {
        Config::new(url)
    }
}

impl From<&String> for Config {
    fn from(url: &String) -> Self {
        Config::new(url.as_str())
    }
}

impl fmt::Debug for Config {
    /// Shows where to, never with which password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = Address::parse(&self.url);
        f.debug_struct("Config")
            .field(
                "url",
                &address
                    .as_ref()
                    .map_or("<not readable>".to_owned(), ToString::to_string),
            )
            .field("namespace", &self.namespace)
            .field("default_ttl", &self.default_ttl)
            .field("default_wait", &self.default_wait)
            .field("release", &self.release)
            .finish_non_exhaustive()
    }
}
