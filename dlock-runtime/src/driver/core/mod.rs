//! What all handles of one pool share: the server, the settings, the local queues and the watchdog.
//!
//! All other modules of the driver take a `&Core`; the public face above it is `driver::pool`. A new kind
//! of server is created in `backend_of`.
//!
//! Never in this folder: a decision about a lock.

mod listener;
pub(super) mod neighbours;

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use self::neighbours::Neighbour;
use super::shared::{DriverHost, SharedClient};
use super::shutdown::ClosingSignal;
use super::watchdog::Watchdog;
use crate::client::queue_key::QueueKey;
use crate::client::retry::Spread;
use crate::client::tokens::Census;
use crate::client::{AcquireRefusal, Client, ClientRules, QueueStep, Told};
use crate::extras::lock_order::LockOrders;
use crate::extras::server_check::{PoolSettings, judge, judge_away, judge_nodes};
use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::memory::Memory;
use crate::link::offers::{Offers, WantedOffer};
use crate::link::redis::membership::NodePlan;
use crate::link::{Backend, Link, NodeBackend, joined};
use crate::observe::{self, Observers};
use crate::topology::cluster::Cluster;
#[cfg(feature = "postgres")]
use crate::topology::postgres::Postgres;
use crate::topology::quorum::{Quorum, QuorumTimes};
use crate::topology::server::Redis;
use crate::values::about::WrittenName;
use crate::values::config::{Address, Config, RedisAddress, Settings};
use crate::values::error::{LockError, Reason};
use crate::values::finding::Finding;
use crate::values::key::{Key, KeyParts};
use crate::values::moment::Moment;
use crate::values::process::Home;
use crate::values::token::TokenSource;

/// A leader counts as stuck when it has shown no sign of life for so long, besides one step.
const BESIDE_A_STEP: Duration = Duration::from_secs(2);

pub(crate) struct Core {
    /// The process that made the pool: a forked child has neither its watchdog's thread nor a right
    /// to its connections.
    home: Home,
    settings: Arc<Settings>,
    neighbour: Option<Arc<Neighbour>>,
    backend: Arc<dyn Backend>,
    /// What the backend can do.
    offers: Offers,
    tokens: Arc<TokenSource>,
    watchdog: Watchdog,
    /// Which locks were asked for inside which others.
    lock_orders: Mutex<LockOrders>,
    holder_name: WrittenName,
    closing: Arc<ClosingSignal>,
    /// A shutdown has finished.
    ended: AtomicBool,
    /// How many releases got no clear answer.
    unclear_releases: AtomicU64,
    observers: Arc<Observers>,
}

impl Core {
    /// Connects to the configured server, unless the configuration is `lazy`.
    pub(crate) async fn connect(config: Config) -> Result<Arc<Core>, LockError> {
        let settings = Arc::new(config.check()?);
        let tokens = TokenSource::new().map_err(|why| {
            let why = Reason::new(format_args!("the system gives no random numbers: {why}"));
            CommandError::Setup(why).into_error(None)
        })?;
        let tokens = Arc::new(tokens);
        let backend = backend_of(&settings, &tokens)?;
        if matches!(settings.address, Address::Memory) {
            observe::memory_only();
        }
        let observers = Arc::new(Observers::new(&settings.observing));
        let rules = ClientRules {
            command_timeout: settings.command_timeout,
            stuck_after: settings.one_step() + BESIDE_A_STEP,
            poll_told: settings.poll_interval(true),
            poll_untold: settings.poll_interval(false),
            handoff: settings.local_handoff,
            margin: settings.clock_margin,
            spread: Spread::ByChance(RandomState::new().hash_one(0)),
            is_of_quorum: backend.offers() == Offers::Quorum,
        };
        let namespace = settings.namespace.len();
        let host = DriverHost::new(backend.clock(), tokens.clone());
        let shared = Arc::new(SharedClient::new(host, rules, namespace));
        let core = Arc::new(Core {
            home: Home::here(),
            tokens,
            watchdog: Watchdog::start(shared, backend.clone(), observers.clone())
                .map_err(|error| error.at(&settings.address))?,
            lock_orders: Mutex::default(),
            holder_name: WrittenName::of(&settings.holder_name.clone().unwrap_or_else(host_name)),
            closing: ClosingSignal::new(),
            ended: AtomicBool::new(false),
            unclear_releases: AtomicU64::new(0),
            observers,
            neighbour: Neighbour::enter(&settings),
            offers: backend.offers(),
            backend,
            settings,
        });
        let listener: Weak<Core> = Arc::downgrade(&core);
        core.backend.listen(listener);
        if !core.settings.lazy {
            let within = core.settings.connect_timeout;
            let links = core.backend.connect_all(within).await;
            // Of several servers, the first lock of one that is away says so.
            let (links, away): (Vec<_>, Vec<_>) = links
                .map_err(|error| core.error(error, None))?
                .into_iter()
                .partition(Result::is_ok);
            if let (true, Some(Err(error))) = (links.is_empty(), away.into_iter().next()) {
                return Err(core.error(error, None));
            }
            let links: Vec<_> = links.into_iter().flatten().collect();
            core.log_findings(&links).await;
        }
        Ok(core)
    }

    /// A connection to each server.
    pub(crate) async fn links_to_all(
        &self,
        within: Duration,
    ) -> Result<Vec<Arc<dyn Link>>, CommandError> {
        let links = self.backend.connect_all(within).await?;
        links.into_iter().collect()
    }

    /// A connection to each server that can be used, and why each of the others can't.
    ///
    /// # Errors
    /// If none can be used.
    pub(crate) async fn links_to_reachable(
        &self,
        within: Duration,
    ) -> Result<(Vec<Arc<dyn Link>>, Vec<CommandError>), CommandError> {
        let (mut links, mut away) = (Vec::new(), Vec::new());
        for connected in self.backend.connect_all(within).await? {
            match connected {
                Ok(link) => links.push(link),
                Err(error) => away.push(error),
            }
        }
        if links.is_empty() && !away.is_empty() {
            return Err(away.swap_remove(0));
        }
        Ok((links, away))
    }

    /// Checks the servers over these connections; others are `away`.
    pub(crate) async fn check(
        &self,
        links: &[Arc<dyn Link>],
        mut away: Vec<CommandError>,
    ) -> Result<Vec<Finding>, CommandError> {
        let mut answers = Vec::new();
        let checks = links
            .iter()
            .map(|link| link.check(self.settings.command_timeout));
        for answer in joined::all(checks.collect()).await {
            match answer {
                Ok(found) => answers.extend(found),
                Err(error) => away.push(error),
            }
        }
        if answers.is_empty()
            && let Some(error) = away.pop()
        {
            return Err(error);
        }
        let pool = PoolSettings {
            namespace: &self.settings.namespace,
            command_timeout: self.settings.command_timeout,
            default_ttl: self.settings.default_ttl(),
            durability: self.settings.durability,
            counter_per_slot: self.settings.counter_per_slot,
            has_nodes: self.settings.max_ttl.is_some(),
        };
        let found = answers.iter().flat_map(|answers| {
            let findings = judge(answers, &pool).into_iter();
            findings.map(|it| match &answers.node {
                Some(node) => it.at(node),
                None => it,
            })
        });
        let away = away.iter().map(|why| judge_away(why));
        let nodes = self.backend.nodes();
        let found = judge_nodes(&nodes).chain(away).chain(found);
        let mut findings: Vec<_> = found.collect();
        findings.sort_by_key(Finding::weight); // stable
        Ok(findings)
    }

    /// Before the first lock, so that the log says what is wrong before anything comes of it. Not
    /// in a task of its own: that would outlive a short program's pool, or never run.
    async fn log_findings(&self, links: &[Arc<dyn Link>]) {
        // A failure is ignored: if the server is away, the first lock says so.
        let mut findings = self.check(links, Vec::new()).await.unwrap_or_default();
        findings.retain(Finding::is_logged);
        for finding in findings {
            observe::found(&self.settings.address, &finding);
        }
    }

    /// Called before anything is locked or sent: an error in a forked child of the process that
    /// made the pool.
    pub(crate) fn check_process(&self) -> Result<(), LockError> {
        if self.is_inherited() {
            return Err(made_before_a_fork("this pool"));
        }
        Ok(())
    }

    /// Whether a parent process made this pool: a child must not wait for its mutexes, nor drop
    /// anything that closes a connection.
    pub(crate) fn is_inherited(&self) -> bool {
        self.home.is_elsewhere()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The key's full name on the server, with the pool's namespace.
    pub(crate) fn name(&self, key: Key) -> Result<Key, LockError> {
        let key = key.in_namespace(&self.settings.namespace)?;
        if let Some(neighbour) = &self.neighbour {
            neighbour.check(&key)?;
        }
        Ok(key)
    }

    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    /// Checks that the backend can do what a caller wants, before anything is sent or queued.
    pub(crate) fn offers(&self, wanted: WantedOffer<'_>) -> Result<(), LockError> {
        self.offers.check(wanted).map_err(LockError::config)
    }

    /// A name on the server, as it is shown.
    pub(crate) fn parts<'a>(&self, name: &'a str) -> KeyParts<'a> {
        self.watchdog.shared().parts(name)
    }

    /// Whether waiters queue at the server.
    pub(crate) fn has_queues(&self) -> bool {
        self.offers != Offers::Quorum
    }

    /// The error that the caller of a command about `key` sees.
    pub(crate) fn error(&self, error: CommandError, key: Option<&Key>) -> LockError {
        let error = match error {
            // What is missing are votes, whatever became of the last one.
            CommandError::Unsent(why) | CommandError::NoLogin(why) | CommandError::Unclear(why)
                if self.offers == Offers::Quorum =>
            {
                CommandError::TooFewNodes { why, is_open: true }
            }
            error => error,
        };
        error.into_error(key).at(&self.settings.address)
    }

    pub(crate) fn tokens(&self) -> &TokenSource {
        &self.tokens
    }

    pub(crate) fn watchdog(&self) -> &Watchdog {
        &self.watchdog
    }

    /// Tells the machine what has happened, and carries out what follows.
    #[inline]
    pub(in crate::driver) fn tell<T>(
        &self,
        now: Moment,
        event: impl FnOnce(&mut Client<DriverHost>, Told<'_, DriverHost>) -> T,
    ) -> T {
        let nudge = |token| self.watchdog.nudge(token);
        self.watchdog.shared().tell(now, event, nudge)
    }

    /// Tells a queue what has happened; nothing follows if there is none.
    #[inline]
    pub(in crate::driver) fn at<T: Default>(
        &self,
        queue_key: &QueueKey,
        now: Moment,
        event: impl FnOnce(&mut QueueStep<'_, DriverHost>) -> T,
    ) -> T {
        self.tell(now, |client, told| client.at(queue_key, told, event))
    }

    /// Asks the machine something; nothing changes.
    pub(in crate::driver) fn ask<T>(&self, question: impl FnOnce(&Client<DriverHost>) -> T) -> T {
        question(&self.watchdog.shared().lock().client)
    }

    fn queue_keys(&self) -> Vec<QueueKey> {
        self.ask(|client| client.queues.keys())
    }

    pub(crate) fn lock_orders(&self) -> &Mutex<LockOrders> {
        &self.lock_orders
    }

    /// Counts a release without a clear answer; returns how many there were.
    pub(crate) fn unclear_release(&self) -> u64 {
        self.unclear_releases.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn unclear_releases(&self) -> u64 {
        self.unclear_releases.load(Ordering::Relaxed)
    }

    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    pub(crate) fn holder_name(&self) -> &WrittenName {
        &self.holder_name
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.closing.has_begun()
    }

    pub(crate) fn closing_signal(&self) -> &Arc<ClosingSignal> {
        &self.closing
    }

    /// Whether a shutdown of it has finished, with locks left or without.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Takes no new locks from here on.
    pub(crate) fn shut(&self) {
        self.closing.begin();
        let now = self.now();
        self.tell(now, |client, _| client.close());
        for queue_key in self.queue_keys() {
            self.at(&queue_key, now, |queue| {
                queue.refuse_all(&AcquireRefusal::ShutDown);
            });
        }
    }

    pub(crate) fn now(&self) -> Moment {
        self.backend.clock().now()
    }

    pub(crate) fn census(&self) -> Census {
        self.watchdog.census()
    }
}

/// The error for an object that a forked child inherited and can't use.
pub(crate) fn made_before_a_fork(what: &str) -> LockError {
    LockError::config(format_args!(
        "{what} was made before this process was forked, and stays with its parent: connect after the fork, with `init`, `init_named` or `LockPool::connect` in the child"
    ))
}

/// A forked child leaks everything: closing an inherited connection would close it for the parent
/// too, and a thread of the parent may have held a mutex at the fork, which then stays locked for
/// ever.
impl Drop for Core {
    fn drop(&mut self) {
        if self.home.is_elsewhere() {
            std::mem::forget(self.backend.clone());
            self.watchdog.stay();
        }
    }
}

fn backend_of(
    settings: &Arc<Settings>,
    tokens: &TokenSource,
) -> Result<Arc<dyn Backend>, LockError> {
    let nodes = match &settings.address {
        Address::Memory => return Ok(Arc::new(Memory::new())),
        #[cfg(feature = "postgres")]
        Address::Postgres(address) => return Ok(Arc::new(Postgres::new(address, settings))),
        #[cfg(not(feature = "postgres"))]
        Address::Postgres(_) => return Err(LockError::config("no feature `postgres`")), // nor such a URL
        Address::Redis(address) => return Ok(Arc::new(Redis::new(address, settings, None))),
        Address::Cluster(address) => return Ok(Arc::new(Cluster::new(address, settings))),
        Address::Redlock(nodes) => nodes,
    };
    let max_ttl = settings.max_ttl.unwrap_or(settings.default_ttl()).get();
    let pool = tokens.number();
    let node = |address: &Arc<RedisAddress>| {
        let plan = NodePlan {
            max_ttl,
            nodes: nodes.len(),
            pool,
        };
        let node: Arc<dyn NodeBackend> = Arc::new(Redis::new(address, settings, Some(plan)));
        (address.to_string(), node)
    };
    let waits = QuorumTimes {
        connect_timeout: settings.connect_timeout,
        command_timeout: settings.command_timeout,
        max_ttl,
        margin: settings.clock_margin,
    };
    let quorum = Quorum::new(nodes.iter().map(node).collect(), waits, Clock::real());
    match quorum {
        Some(quorum) => Ok(Arc::new(quorum)),
        None => Err(LockError::config("redlock: that many nodes can't decide")), // checked before
    }
}

fn host_name() -> String {
    #[cfg(unix)]
    let name = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    #[cfg(not(unix))]
    let name = std::env::var("COMPUTERNAME").unwrap_or_default();
    if name.is_empty() {
        "unknown-host".to_owned()
    } else {
        name
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockPool")
            .field("url", &format_args!("{}", self.settings.address))
            .field("namespace", &self.settings.namespace)
            .finish_non_exhaustive()
    }
}
