//! A private server, a link to it, and short forms of the commands that these tests need. It tests
//! nothing itself.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use dlock_harness::RedisServer;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;

use crate::link::clock::Clock;
use crate::link::command_error::CommandError;
use crate::link::redis::epochs::HighestEpoch;
use crate::link::redis::grant_key::GrantKey;
use crate::link::redis::link::RedisLink;
use crate::link::redis::names::Names;
use crate::link::redis::outage::Attempts;
use crate::link::redis::pace::ClockPace;
use crate::link::redis::plan::Plan;
use crate::link::{Link, Listener};
use crate::rules::commands::{Acquire, Acquired, Claim, Keep, PushedGrant, Renewal};
use crate::topology::server::connect::connect;
use crate::values::config::{Address, Secret, Settings};
use crate::values::entry;
use crate::values::error::Refusal;
use crate::values::kind::Kind;
use crate::values::moment::Moment;
use crate::values::ttl::{Margin, Ttl};

/// A deadline that no test is meant to reach.
pub(super) const CAP: Duration = Duration::from_secs(20);
pub(super) const HOUR: u64 = 3_600_000_000;
pub(super) const FENCES: &str = "lock:@fence";

pub(super) struct Lab {
    pub(super) server: RedisServer,
    pub(super) link: RedisLink,
    /// The pushes that the link received.
    pub(super) heard: Arc<Heard>,
    /// The connection of [`tell`](Self::tell).
    direct: MultiplexedConnection,
}

impl Lab {
    pub(super) async fn new() -> Self {
        let server = RedisServer::start();
        let heard = Arc::<Heard>::default();
        let link = listening(&server.url(), &heard).await;
        Self::of(server, link, heard).await
    }

    /// With this link to the server.
    pub(super) async fn of(server: RedisServer, link: RedisLink, heard: Arc<Heard>) -> Self {
        let direct = server.connect().await;
        Self {
            server,
            link,
            heard,
            direct,
        }
    }

    /// Runs any command outside the link; faster than the harness's own, which connects each time.
    pub(super) async fn tell<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::Cmd::new();
        command.arg(words);
        let answer = command.query_async(&mut self.direct.clone()).await;
        answer.unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    pub(super) async fn acquire(&self, who: &Claim) -> Result<Acquired, CommandError> {
        self.link
            .acquire(&acquire(who, self.link.server_time() + HOUR), CAP)
            .await
    }

    pub(super) async fn granted(&self, who: &Claim) -> u64 {
        match self.acquire(who).await {
            Ok(Acquired::Granted { epoch, .. }) => epoch,
            other => panic!("not granted: {other:?}"),
        }
    }

    /// An address at this server without a listener.
    pub(super) fn unresponsive(&self) -> String {
        let address = self.link.address().expect("it hears");
        let (run_id, _) = address.split_once(';').expect("an address");
        format!("{run_id};lock:@grant:nobody")
    }

    /// The keys of locks and of the epoch counter.
    pub(super) async fn keys(&self) -> Vec<String> {
        self.server.keys().await
    }
}

/// The received pushes; each is returned once.
#[derive(Debug, Default)]
pub(super) struct Heard {
    grants: Mutex<Vec<(PushedGrant, Option<Moment>)>>,
    hints: Mutex<Vec<(String, String)>>,
    freed: Mutex<Vec<String>>,
    evicted: Mutex<Vec<(String, String, bool)>>,
    pub(super) disconnected: AtomicBool,
}

impl Heard {
    pub(super) fn take(&self) -> Vec<(PushedGrant, Option<Moment>)> {
        std::mem::take(&mut *self.grants.lock().unwrap())
    }

    /// Hints: messages that nothing proves.
    pub(super) fn take_hints(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.hints.lock().unwrap())
    }

    /// Who was said to be evicted, and whether that was proved.
    pub(super) fn take_evicted(&self) -> Vec<(String, String, bool)> {
        std::mem::take(&mut *self.evicted.lock().unwrap())
    }

    /// What nodes said to be free.
    pub(super) fn take_freed(&self) -> Vec<String> {
        std::mem::take(&mut *self.freed.lock().unwrap())
    }
}

impl Listener for Heard {
    fn granted(&self, grant: PushedGrant, since: Option<Moment>) {
        self.grants.lock().unwrap().push((grant, since));
    }

    fn hinted(&self, key: &Arc<str>, value: &str) {
        let hint = (key.to_string(), value.to_owned());
        self.hints.lock().unwrap().push(hint);
    }

    fn freed(&self, key: &Arc<str>) {
        self.freed.lock().unwrap().push(key.to_string());
    }

    fn evicted(&self, key: &str, value: &str, is_proved: bool) {
        let said = (key.to_owned(), value.to_owned(), is_proved);
        self.evicted.lock().unwrap().push(said);
    }

    fn disconnected(&self) {
        self.disconnected.store(true, Ordering::SeqCst);
    }
}

/// A link without a listener.
pub(super) async fn link(url: &str) -> RedisLink {
    connect(&plan(url)).await.expect("a connection")
}

pub(super) async fn listening(url: &str, heard: &Arc<Heard>) -> RedisLink {
    let (plan, listener) = (plan(url), Arc::downgrade(heard));
    let _ = plan.listener.set(listener as Weak<dyn Listener>);
    connect(&plan).await.expect("a connection")
}

pub(super) fn plan(url: &str) -> Plan {
    let Ok(Address::Redis(address)) = Address::parse(url) else {
        panic!("not the URL of a redis server");
    };
    let mut settings = Settings::default();
    (settings.command_timeout, settings.connect_timeout) = (CAP, CAP);
    Plan {
        pace: Arc::new(ClockPace::new(address.clone(), Margin::DEFAULT)),
        address,
        target: Arc::default(),
        settings: Arc::new(settings),
        clock: Clock::real(),
        names: Names::new("lock:", false),
        node: None,
        of_cluster: None,
        highest_epoch: HighestEpoch::default(),
        grant_key: GrantKey::new(Some(&Secret::new("of the tests".to_owned()))),
        listener: OnceLock::new(),
        warned: AtomicBool::new(false),
        attempts: Attempts::default(),
    }
}

pub(super) fn claim(key: &str, value: &str) -> Claim {
    Claim {
        is_once: false,
        key: key.into(),
        value: value.into(),
        queues: false,
    }
}

/// The token of an entry.
pub(super) fn token_of(entry: &str) -> &str {
    entry::read(entry).map_or("nobody's", |entry| entry.token)
}

/// A claim to an exclusive lock for 30 s that queues, with its grants pushed to `address`.
pub(super) fn waiter(key: &str, address: &str, token: &str) -> Claim {
    let value = entry::of_test(&Kind::Exclusive, token, address, seconds(30), "host|1|f|0");
    Claim {
        queues: true,
        ..claim(key, &value)
    }
}

pub(super) fn seconds(ttl: u64) -> Ttl {
    Ttl::new(Duration::from_secs(ttl)).expect("a ttl within bounds")
}

/// An acquire with a lease of 30 s.
pub(super) fn acquire(who: &Claim, not_after: u64) -> Acquire {
    Acquire {
        claim: who.clone(),
        lease: seconds(30),
        not_after,
        repair_missing_ttl: None,
    }
}

pub(super) fn renewal(who: &Claim, ttl: u64) -> Renewal {
    Renewal {
        claim: who.clone(),
        ttl: seconds(ttl),
    }
}

#[track_caller]
pub(super) fn assert_refused<T: std::fmt::Debug>(
    answer: Result<T, CommandError>,
    expected: Refusal,
) {
    match answer {
        Err(CommandError::Refused(refusal, _)) => assert_eq!(refusal, expected),
        other => panic!("not refused: {other:?}"),
    }
}

/// What is released stays for so many seconds from this server time on.
pub(super) fn kept(seconds: Option<u64>, from: u64) -> Keep {
    seconds.map_or(Keep::NOT, |it| Keep::from(from, Duration::from_secs(it)))
}

pub(super) fn for_an_hour(link: &RedisLink) -> Keep {
    kept(Some(3600), link.server_time())
}
