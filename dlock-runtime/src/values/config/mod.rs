//! How a pool is configured: the builder for users, and the settings that it fills.
//!
//! `environment` reads the same settings from `DLOCK_*` variables, `address` parses the URL,
//! `settings` is what both fill, `check` what makes it a configuration that can work, and `refused`
//! what some servers can't have. `tls`, `login` and `connector` are the
//! parts of an address that the builder can give too, `observing` is who is told about locks.
//! Invariant: every bad value is reported, all in one error.
//!
//! Never in this folder: a default that replaces a bad value.

mod address;
mod check;
mod connector;
mod durability;
mod environment;
mod login;
mod observing;
mod refused;
mod settings;
mod tls;

use std::fmt;
use std::time::Duration;

use super::lock_order::LockOrder;
use super::release::Release;
use super::ttl::Ttl;
use super::wait::Wait;

pub(crate) use address::{
    Address, ClusterAddress, Endpoint, Host, PostgresAddress, RedisAddress, Sentinels,
};
pub(crate) use connector::{Connector, Stream};
pub(crate) use durability::Durability;
pub use login::Credentials;
pub(crate) use login::{Login, Secret};
pub(crate) use observing::Observing;
pub use observing::SpanLevel;
pub(crate) use refused::{ServerKind, WantedOffer, guide};
pub(crate) use settings::Settings;
pub(crate) use tls::Tls;

/// The configuration of a [`LockPool`](crate::LockPool).
///
/// A URL converts to one, so `init("redis://127.0.0.1:6379")` is enough to start with. Nothing is
/// checked before the pool is made; then one [`LockError::Config`](crate::LockError::Config) names
/// every bad setting.
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
    /// The nodes of [`Config::redlock`]; empty if `url` says it all.
    nodes: Vec<String>,
    tls: Tls,
    login: Option<Login>,
    connector: Option<Connector>,
    settings: Settings,
    /// Settings that were given and can't work, each with the reason.
    wrong: Vec<(&'static str, String)>,
}

impl Config {
    /// Makes a configuration with the defaults, for the server at `url`.
    ///
    /// | URL | with TLS | server |
    /// | --- | --- | --- |
    /// | `redis://[user:password@]host[:port][/db]` | `rediss://…` | one server |
    /// | `redis+unix:///path[?db=0&user=…&pass=…]` | – | one server, through a Unix socket |
    /// | `redis+sentinel://[user:password@]s1,s2,s3/name[/db]` | `rediss+sentinel://…` | the master that these sentinels know by this name |
    /// | `redis+cluster://[user:password@]n1,n2,n3` | `rediss+cluster://…` | a cluster; the URL names some of its nodes |
    /// | `redlock://[user:password@]n1,n2,n3` | `redlocks://…` | [independent servers](Self::redlock), of which a quorum decides |
    /// | `postgres://user[:password]@host[,host2]/database` | unless it is on this machine | PostgreSQL 13 or newer, with the feature `postgres` |
    /// | `memory://` | – | none: locks within this process only, for development and tests |
    ///
    /// `valkey` may replace `redis`. Each host may have a `:port`; the default is 6379, for
    /// sentinels 26379. The URL is checked when the pool is made; it may have these options:
    ///
    /// | option | meaning |
    /// | --- | --- |
    /// | `?protocol=resp2` | does not ask the server for RESP3, and so gets no pushes |
    /// | `?tls_ca=…`, `?tls_server_name=…` | as the methods [`tls_ca`](Self::tls_ca) and [`tls_server_name`](Self::tls_server_name) |
    /// | `?tls_cert=…&tls_key=…` | as the method [`tls_identity`](Self::tls_identity) |
    /// | `?sentinel_user=…&sentinel_pass=…` | the login at the sentinels, if they need one |
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    ///
    /// let pool = LockPool::connect(Config::new("memory://").namespace("shop:lock:")).await?;
    ///
    /// let error = LockPool::connect(Config::new("localhost:6379")).await.unwrap_err();
    /// assert!(error.to_string().contains("redis://host:6379"));
    /// # drop(pool); Ok(()) }
    /// ```
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            nodes: Vec::new(),
            tls: Tls::default(),
            login: None,
            connector: None,
            settings: Settings::default(),
            wrong: Vec::new(),
        }
    }

    /// Makes a configuration with the defaults, for independent servers of which a quorum decides:
    /// an odd number from 3 to 9, each with its own URL, `redis://…`, `rediss://…` or
    /// `redis+unix://…`.
    ///
    /// For nodes that differ only in their host, [`Config::new`] takes the URL
    /// `redlock://user:password@a,b,c`, or with TLS `redlocks://…`.
    ///
    /// Such a lock survives the loss of a minority of the servers, while enough of the others vote,
    /// and costs a command at each of them. `docs/topologies/several-servers.md` in the repository says what it
    /// promises. Every program of a fleet must name the same nodes and the same
    /// [`max_ttl`](Self::max_ttl). Refused, with the reason:
    /// [`permits`](crate::LockRequest::permits), [`fair`](crate::LockRequest::fair),
    /// [`once_per`](crate::LockRequest::once_per), [guarded writes](crate::LockGuard::write),
    /// [`repair_missing_ttl`](Self::repair_missing_ttl),
    /// [`without_scripts`](Self::without_scripts), [`counter_per_slot`](Self::counter_per_slot),
    /// [`max_in_flight`](Self::max_in_flight), [`min_replicas`](Self::min_replicas),
    /// [`min_aof`](Self::min_aof), and nodes that are replicas or have some.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    ///
    /// let nodes = ["redis://10.0.1.5", "redis://10.0.2.5", "redis://10.0.3.5"];
    /// let pool = LockPool::connect(Config::redlock(nodes)).await?;
    ///
    /// let error = LockPool::connect(Config::redlock(["redis://10.0.1.5", "redis://10.0.2.5"])).await;
    /// assert!(error.unwrap_err().to_string().contains("survive no more failures"));
    /// # Ok(()) }
    /// ```
    pub fn redlock<I>(nodes: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let nodes = nodes.into_iter().map(Into::into).collect();
        Self {
            nodes,
            ..Self::new("redlock://")
        }
    }

    /// Sets the longest lease that any program of the fleet requests at the nodes of
    /// [`redlock`](Self::redlock): 10 ms to 24 h. Default 60 s.
    ///
    /// A longer [`ttl`](crate::LockRequest::ttl) or [`min_hold`](crate::LockRequest::min_hold) is
    /// refused. A node that started less than this time plus 1 s ago does not vote, because it may
    /// have lost locks that are still held. So after a restart the other nodes must form the
    /// quorum, and a fresh installation waits that long for its first lock. **Every program of a
    /// fleet must name the same time**: the nodes store it, and a program that names another one is
    /// refused. Refused without `redlock`.
    pub fn max_ttl(self, ttl: Duration) -> Self {
        self.set("max_ttl", check::lease(ttl), |it, ttl| {
            it.max_ttl = Some(ttl);
        })
    }

    pub(super) fn address(&self) -> Result<Address, String> {
        if self.nodes.is_empty() && self.url != "redlock://" {
            Address::parse(&self.url)
        } else {
            Address::of_nodes(&self.nodes)
        }
    }

    /// Sets the prefix of every key on the server. Default `lock:`.
    ///
    /// All programs that share locks must use the same one. It has at most 128 bytes, and no
    /// braces, bars, `@` or control characters. No namespace should be a prefix of another:
    /// `shop:7` in `lock:` and `7` in `lock:shop:` are one lock with two queues, so a pool refuses
    /// keys in the namespace of another live pool of the process.
    pub fn namespace(self, namespace: impl Into<String>) -> Self {
        let namespace = check::namespace(namespace.into());
        self.set("namespace", namespace, |it, name| it.namespace = name)
    }

    /// Sets the lease of a lock without a [`ttl`](crate::LockRequest::ttl) of its own: 10 ms to 24
    /// h. Default 30 s, or [`max_ttl`](Self::max_ttl) if that is shorter.
    pub fn default_ttl(self, ttl: Duration) -> Self {
        self.set("default_ttl", check::lease(ttl), |it, ttl| {
            it.default_ttl = Some(ttl);
        })
    }

    /// Sets how long a call without a [`wait`](crate::LockRequest::wait) of its own waits. Default
    /// 3 s.
    ///
    /// A function with `on_busy = "skip"` and no `wait` tries once instead.
    pub fn default_wait(mut self, wait: impl Into<Wait>) -> Self {
        self.settings.default_wait = wait.into();
        self
    }

    /// Bounds how long a renewed lock without a [`max_hold`](crate::LockRequest::max_hold) of its
    /// own may be held: 10 ms to 24 h, and at least the lock's `ttl` and `min_hold`. Default: no
    /// bound.
    ///
    /// Without a bound, a body that hangs keeps its renewed lock for ever. With this setting it
    /// loses the lock after that time ([`LostCause::MaxHold`](crate::LostCause::MaxHold)), and the
    /// key is freed. A lock that is not renewed ends with its `ttl` anyway.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    /// use std::time::Duration;
    ///
    /// let config = Config::new("memory://").default_max_hold(Duration::from_secs(15 * 60));
    /// let pool = LockPool::connect(config).await?;
    /// let report = pool.lock("report").renew().acquire().await?; // for 15 minutes at most
    /// # report.release().await?; Ok(()) }
    /// ```
    pub fn default_max_hold(self, time: Duration) -> Self {
        self.set("default_max_hold", check::lease(time), |it, time| {
            it.default_max_hold = Some(time);
        })
    }

    /// Sets whether the end of a locked body waits for the answer to its release, and fails if the
    /// lock was gone. Default [`Release::Confirmed`]; a lock's own
    /// [`release`](crate::LockRequest::release) takes precedence.
    pub fn release(mut self, release: Release) -> Self {
        self.settings.release = release;
        self
    }

    /// Sets how many connections each tokio runtime keeps, 1 to 64; keys are spread over them.
    /// Default 1.
    ///
    /// They are multiplexed, so one serves hundreds of concurrent tasks; a second one pays off
    /// above about 500.
    pub fn connections(self, connections: usize) -> Self {
        let connections = check::connections(connections);
        self.set("connections", connections, |it, number| {
            it.connections = number;
        })
    }

    /// Sets how long connecting may take, including the handshake. Default 1 s.
    pub fn connect_timeout(self, timeout: Duration) -> Self {
        self.set("connect_timeout", check::time(timeout), |it, time| {
            it.connect_timeout = time;
        })
    }

    /// Sets how long one answer of the server may take. Default 500 ms.
    ///
    /// The outcome of a command without an answer by then is unclear, and dlock cleans up after it.
    pub fn command_timeout(self, timeout: Duration) -> Self {
        self.set("command_timeout", check::time(timeout), |it, time| {
            it.command_timeout = time;
        })
    }

    /// Sets how long a [`shutdown`](crate::shutdown) waits for bodies to end by themselves: 0 s to 5
    /// min. Default 5 s.
    ///
    /// After it, each body that may be stopped is dropped and its lock released, that of a
    /// [leader](crate::Candidate::run) too, and inner locks before outer ones, so that another
    /// instance has the lock at once; the call fails with
    /// [`LostCause::ShutDown`](crate::LostCause::ShutDown). Bodies under a function with
    /// `on_shutdown = "finish"`, guards, and a body that blocks its thread keep their locks. A body
    /// that waits for [`closing`](crate::closing) can end sooner by itself. `shutdown` returns
    /// within this time and two [`command_timeout`](Self::command_timeout)s.
    ///
    /// Give the orchestrator more time than that: Kubernetes kills a pod 30 s after SIGTERM.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    /// use std::time::Duration;
    ///
    /// let pool = LockPool::connect(Config::new("memory://").shutdown_grace(Duration::ZERO)).await?;
    /// let endless = pool.lock("mailer").run(async |_| std::future::pending::<()>().await);
    /// let (ended, drained) = tokio::join!(endless, pool.shutdown());
    /// assert!(drained.is_complete());
    /// assert!(ended.unwrap_err().to_string().contains("`shutdown_grace`"));
    /// # Ok(()) }
    /// ```
    pub fn shutdown_grace(self, grace: Duration) -> Self {
        self.set(
            "shutdown_grace",
            check::shutdown_grace(grace),
            |it, grace| {
                it.shutdown_grace = grace;
            },
        )
    }

    /// Sets the longest time between two polls of a waiter: 1 ms to 1 s. If the holder's lease ends
    /// sooner, the waiter polls when it ends.
    ///
    /// If the server can push a grant to a waiter (RESP3), polling is only a safety net, every 1 s
    /// by default. If it can't (RESP2, a proxy, an ACL without the channel), polling is the only
    /// way, every 100 ms by default. A value that is set here applies to both.
    pub fn poll_interval(self, interval: Duration) -> Self {
        self.set(
            "poll_interval",
            check::poll_interval(interval),
            |it, time| {
                it.poll_interval = Some(time);
            },
        )
    }

    /// Sets after how long without traffic a connection is checked. Default 15 s.
    ///
    /// The check replaces a connection that was lost unnoticed before a lock needs it.
    pub fn health_check_interval(self, interval: Duration) -> Self {
        self.set(
            "health_check_interval",
            check::time(interval),
            |it, time| {
                it.health_check_interval = time;
            },
        )
    }

    /// Limits how many commands one connection carries at once, at least 1. Default: no limit.
    ///
    /// Further commands wait, within their [`command_timeout`](Self::command_timeout). With a
    /// limit, each command is sent by itself, never combined with others. Refused with
    /// `redlock://`.
    pub fn max_in_flight(self, commands: usize) -> Self {
        self.set("max_in_flight", check::in_flight(commands), |it, most| {
            it.max_in_flight = Some(most);
        })
    }

    /// Takes locks without Lua scripts, on a server that refuses `EVAL`. Default: with scripts.
    ///
    /// Use it only when the server offers none: the user has no right to them, or the command is
    /// renamed or disabled. Exclusion, order of arrival, renewal, `min_hold` and release are the
    /// same, and clients with and without scripts exclude each other, so a fleet may have both.
    /// Without scripts you lose:
    ///
    /// - `read`, `write`, `permits`, `owner`, `keys`, `fair` and
    ///   [guarded writes](crate::LockGuard::write): each is a
    ///   [`Config`](crate::LockError::Config) error before anything is sent;
    /// - pushes: waiters poll, every 100 ms by default
    ///   ([`poll_interval`](Self::poll_interval));
    /// - combined commands: each acquire is sent by itself, and each release or batch of renewals
    ///   needs two round trips, on up to four more connections of each runtime;
    /// - releases while a server up to Redis 7 is out of memory: they wait for memory or the end of
    ///   the ttl.
    ///
    /// Refused with `redis+cluster://` and `redlock://`. Has no effect on `memory://`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    ///
    /// let config = Config::new("redis://127.0.0.1:6379").without_scripts();
    /// let pool = LockPool::connect(config).await?;
    ///
    /// let error = pool.lock("report").permits(3).acquire().await.unwrap_err();
    /// assert!(error.to_string().contains("needs scripts"));
    /// # Ok(()) }
    /// ```
    pub fn without_scripts(mut self) -> Self {
        self.settings.without_scripts = true;
        self
    }

    /// Keeps a counter for fences in each of the 16,384 hash slots, for a proxy that shards behind
    /// one address. Default: one counter for the namespace.
    ///
    /// Use it only where the server answers `CROSSSLOT` to every acquire: it looks like a single
    /// server, but refuses commands with keys of several slots (Redis Enterprise, Redis Cloud,
    /// Azure Managed Redis). A cluster that clients see as such has these counters anyway: use
    /// `redis+cluster://`.
    ///
    /// **All programs of a fleet must agree on it**: with and without it, locks exclude each other,
    /// but their fences come from two counters. It has these costs:
    ///
    /// - locks of different slots do not share commands: under load a cycle of acquire and release
    ///   costs the server two to three times as much, and several
    ///   [`keys`](crate::LockPool::lock_all) are taken one by one, unless they have the same
    ///   [hash tag](https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags);
    /// - a dead waiter is noticed only when its grant expires, within 3 s;
    /// - after a failover, only the replicated counter and the new master's clock make
    ///   [fences](crate::LockGuard::fence) rise.
    ///
    /// It can't be combined with [`min_replicas`](Self::min_replicas) or
    /// [`min_aof`](Self::min_aof), which ask one server. Refused with `redis+cluster://` and
    /// `redlock://`. Has no effect on `memory://`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn start() -> Result<(), dlock_runtime::LockError> {
    /// use dlock_runtime::{Config, LockPool};
    ///
    /// let config = Config::new("rediss://proxy.example:10000").counter_per_slot();
    /// let pool = LockPool::connect(config).await?;
    /// # Ok(()) }
    /// ```
    pub fn counter_per_slot(mut self) -> Self {
        self.settings.counter_per_slot = true;
        self
    }

    /// Gives this lease to a key that was left without a time to live, instead of refusing the
    /// lock.
    ///
    /// A program that died between `SETNX` and `EXPIRE` leaves such a key, which would block the
    /// lock for ever. Without this setting the call fails with
    /// [`Refusal::NoTtl`](crate::Refusal::NoTtl), because the key's owner may still be at work.
    /// Give at least the longest lease of any program that uses the key: if somebody removed the
    /// time to live of a key that is held, its holder still counts on its own ttl. Refused with
    /// `redlock://`.
    pub fn repair_missing_ttl(self, ttl: Duration) -> Self {
        self.set("repair_missing_ttl", check::lease(ttl), |it, ttl| {
            it.repair_missing_ttl = Some(ttl.get());
        })
    }

    /// Sets the name of this process in the errors of others that wait for its locks. Default: the
    /// host's name.
    ///
    /// It is printable text of at most 255 bytes.
    pub fn holder_name(self, name: impl Into<String>) -> Self {
        let name = check::holder_name(name.into());
        self.set("holder_name", name, |it, name| it.holder_name = Some(name))
    }

    /// Sets the secret with which the programs of a fleet authenticate their messages about grants.
    /// Default: derived from the URL's password; without a password there is none.
    ///
    /// A waiter acts on an authenticated message immediately, so a client that may only `PUBLISH`
    /// must not be able to forge one. Give the same text in all programs that share locks, if they
    /// log in with different passwords or with none: at least 16 bytes, better 32 random ones. A
    /// message that is not authenticated costs one poll of the server, at most ten a second for
    /// each queue entry. The secret is never shown.
    pub fn grant_secret(self, secret: impl Into<String>) -> Self {
        let secret = check::grant_secret(Secret::new(secret.into()));
        self.set("grant_secret", secret, |it, secret| {
            it.grant_secret = Some(secret);
        })
    }

    /// Connects when the first lock is requested, not when the pool is made.
    ///
    /// A wrong address is then found by the first caller, not at start-up, and only
    /// [`LockPool::check`](crate::LockPool::check) checks the server.
    pub fn lazy(mut self) -> Self {
        self.settings.lazy = true;
        self
    }

    /// Sets what happens when locks are taken one inside the other in two different orders. Default
    /// [`LockOrder::Warn`] in a debug build, otherwise [`LockOrder::Off`].
    pub fn lock_order(mut self, lock_order: LockOrder) -> Self {
        self.settings.lock_order = lock_order;
        self
    }

    /// Sets how many times in a row, and for how long after the server's grant, a holder passes the
    /// lock to the next waiter of this process without a command. Default 16 times, within 10 ms;
    /// with `0` each hand-over goes through the server.
    ///
    /// Many tasks of one process that want the same lock are served several times faster this way;
    /// waiters of other processes wait that much longer for their turn. At most 1,023 times and 1
    /// s, and never for longer than a tenth of the ttl. A lock that is `fair`, has a `min_hold` or
    /// allows several holders is never handed on.
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
    pub fn local_handoff(self, most: usize, within: Duration) -> Self {
        let handoff = check::local_handoff(most, within);
        self.set("local_handoff", handoff, |it, handoff| {
            it.local_handoff = handoff;
        })
    }

    /// Sets by how many per cent the rates of the server's clock and this machine's may differ
    /// while a lease lasts: 1 to 20. Default 1.
    ///
    /// Each holder counts on that much less of its lease, and on 2 ms less in addition. Clocks that
    /// are slewed by up to some thousand ppm need no more than the default. chrony's own default
    /// slews by up to 8.33 % (`maxslewrate`), which takes 8 here for the server's clock alone, and
    /// 16 for both; `maxslewrate 4000` on all machines is the better way. A pool measures the
    /// server's clock, and logs a warning when its rate is outside this margin.
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
    pub fn clock_margin(self, percent: usize) -> Self {
        let margin = check::clock_margin(percent);
        self.set("clock_margin", margin, |it, margin| {
            it.clock_margin = margin;
        })
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
    /// Shows the address, never the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address();
        f.debug_struct("Config")
            .field(
                "url",
                &address
                    .as_ref()
                    .map_or("<not readable>".to_owned(), ToString::to_string),
            )
            .field("namespace", &self.settings.namespace)
            .field("default_ttl", &self.settings.default_ttl.map(Ttl::get))
            .field("default_wait", &self.settings.default_wait)
            .field("release", &self.settings.release)
            .finish_non_exhaustive()
    }
}
