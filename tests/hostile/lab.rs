//! Private servers with the user `eve`, who may read, listen and publish, and the pools that Eve
//! attacks: of one server, of three nodes of which a quorum decides, or of a cluster of three masters.

use std::time::{Duration, Instant};

use dlock_harness::server::Builder;
use dlock_harness::{Cluster, Monitor, RedisServer, until};
use dlock_runtime::{Config, LockGuard, LockPool, LockRequest, NodeStanding};
use dlock_tests::patient;
use redis::aio::MultiplexedConnection;
use tokio::task::JoinHandle;

use crate::eve::Eve;

pub(crate) const CAP: Duration = Duration::from_secs(20);

/// A lease longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// The longest lease at nodes: they vote so long after their start.
const OF_NODES: Duration = Duration::from_secs(4);

/// How long a node keeps its hints after the last address that was added.
const HINTS_TTL_MS: i64 = 7000;

pub(crate) const PASSWORD: &str = "sesame";

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn server(password: Option<&str>) -> Builder {
    let builder = RedisServer::builder();
    match password {
        Some(password) => builder.password(password),
        None => builder,
    }
}

pub(crate) struct Lab {
    /// One, the nodes of a quorum, or the masters of a cluster.
    pub(crate) servers: Vec<RedisServer>,
    /// The URL of the cluster, if it is one.
    cluster: Option<String>,
}

/// Labs by name, for [`on_labs`].
impl Lab {
    /// The pools share a secret: their password.
    pub(crate) async fn with_a_secret() -> Self {
        Self::of(vec![server(Some(PASSWORD)).start()], None).await
    }

    /// The pools have no secret, so that a message proves nothing about its author.
    pub(crate) async fn without_a_secret() -> Self {
        Self::of(vec![server(None).start()], None).await
    }

    pub(crate) async fn nodes_with_a_secret() -> Self {
        Self::nodes(Some(PASSWORD)).await
    }

    pub(crate) async fn nodes_without_a_secret() -> Self {
        Self::nodes(None).await
    }

    /// A message comes to all masters, wherever it is published.
    pub(crate) async fn cluster_with_a_secret() -> Self {
        Self::masters(Some(PASSWORD)).await
    }

    pub(crate) async fn cluster_without_a_secret() -> Self {
        Self::masters(None).await
    }
}

/// Makes a test of an attack in each of these labs.
macro_rules! on_labs {
    ($attack:ident: $($lab:ident),*) => {
        mod $attack {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $lab() {
                    super::$attack(crate::lab::Lab::$lab().await).await;
                }
            )*
        }
    };
    ($attack:ident) => {
        on_labs!($attack: with_a_secret, without_a_secret, nodes_with_a_secret, nodes_without_a_secret, cluster_with_a_secret, cluster_without_a_secret);
    };
}
pub(crate) use on_labs;

impl Lab {
    async fn nodes(password: Option<&str>) -> Self {
        let servers = (0..3).map(|_| server(password).start());
        Self::of(servers.collect(), None).await
    }

    async fn masters(password: Option<&str>) -> Self {
        let cluster = Cluster::start_as(3, |_| server(password)).await;
        let url = cluster.url();
        Self::of(cluster.nodes, Some(url)).await
    }

    async fn of(servers: Vec<RedisServer>, cluster: Option<String>) -> Self {
        let lab = Self { servers, cluster };
        let rights =
            "ACL SETUSER eve reset on >eve ~lock:* &* +@read +publish +psubscribe +info +time";
        for server in &lab.servers {
            server.cmd(&rights.split(' ').collect::<Vec<_>>()).await;
        }
        if lab.is_of_nodes() {
            let pool = lab.pool().await;
            until("all nodes vote", CAP, async || {
                let nodes = pool.status().unwrap().nodes;
                nodes.iter().all(|it| it.standing == NodeStanding::Votes)
            })
            .await;
        }
        lab
    }

    pub(crate) fn is_of_nodes(&self) -> bool {
        self.servers.len() > 1 && self.cluster.is_none()
    }

    /// The server that has this lock; the first node, if each has.
    async fn server_of(&self, key: &str) -> &RedisServer {
        let [first, second, third] = &self.servers[..] else {
            return &self.servers[0];
        };
        if self.cluster.is_none() {
            return first;
        }
        let name = format!("lock:{key}");
        let slot: u32 = first.ask(&["CLUSTER", "KEYSLOT", &name]).await;
        [first, second, third][usize::try_from(slot * 3 / 16_384).unwrap()]
    }

    /// The servers that have this lock: all nodes.
    async fn servers_of(&self, key: &str) -> Vec<&RedisServer> {
        match self.cluster {
            Some(_) => vec![self.server_of(key).await],
            None => self.servers.iter().collect(),
        }
    }

    pub(crate) async fn pool(&self) -> LockPool {
        let urls = self.servers.iter().map(RedisServer::url);
        let config = match (&self.cluster, &self.servers[..]) {
            (Some(url), _) => patient(url),
            (None, [server]) => patient(server.url()),
            _ => Config::redlock(urls)
                .connect_timeout(Duration::from_secs(10))
                .command_timeout(Duration::from_secs(5))
                .default_ttl(OF_NODES)
                .max_ttl(OF_NODES),
        };
        LockPool::connect(config).await.unwrap()
    }

    /// A request with this lease; with one that is renewed, if the nodes know none that long.
    pub(crate) fn lock(&self, pool: &LockPool, key: &str, ttl: Duration) -> LockRequest {
        lock(self.is_of_nodes(), pool, key, ttl)
    }

    /// Whether the pools offer this kind.
    pub(crate) fn offers(&self, kind: &str) -> bool {
        !self.is_of_nodes() || kind == "x"
    }

    pub(crate) async fn eve(&self, seed: u64) -> Eve {
        let url = |it: &RedisServer| format!("redis://eve:eve@{}", it.addr());
        Eve::at(self.servers.iter().map(url), seed).await
    }

    /// The value at a key.
    pub(crate) async fn value(&self, key: &str) -> Option<String> {
        let of = key.strip_prefix("lock:").unwrap_or(key);
        self.server_of(of).await.ask(&["GET", key]).await
    }

    /// `Ok` if nothing is at this lock's key, at no node either: a node that still had the last holder's
    /// value would not vote for the next one. Otherwise the server, its ms left and its value.
    pub(crate) async fn is_free(&self, key: &str) -> Result<(), (usize, i64, Option<String>)> {
        let lock = format!("lock:{key}");
        for (at, server) in self.servers_of(key).await.into_iter().enumerate() {
            let left = server.pttl(&lock).await;
            if left != -2 {
                return Err((at, left, server.ask(&["GET", &lock]).await));
            }
        }
        Ok(())
    }

    /// Who waits, in order, as the server knows it: the entries of its queue; the addresses that
    /// wait for the hint of the first node.
    pub(crate) async fn places(&self, key: &str) -> Vec<String> {
        places_at(self.server_of(key).await, key).await
    }

    /// The last epoch that was drawn.
    pub(crate) async fn counter(&self) -> u64 {
        let mut counter = 0;
        for server in &self.servers {
            counter = counter.max(counter_at(&mut server.connect().await).await);
        }
        counter
    }

    /// How many commands of the pools the servers have executed.
    pub(crate) async fn commands(&self) -> u64 {
        let mut commands = 0;
        for server in &self.servers {
            commands += server.commandstats("evalsha").await + server.commandstats("eval").await;
        }
        commands
    }

    /// A task that waits for this request's lock and has its place in the queue; at each node, too.
    pub(crate) async fn queued(&self, key: &str, request: LockRequest) -> JoinHandle<LockGuard> {
        let servers = self.servers_of(key).await;
        let mut before = Vec::new();
        for server in &servers {
            before.push(places_at(server, key).await.len());
        }
        let begun = Instant::now();
        let waiter = tokio::spawn(async move { request.acquire().await.unwrap() });
        for (server, before) in servers.into_iter().zip(before) {
            until("it stands in the queue", CAP, async || {
                places_at(server, key).await.len() == before + 1
                    || self.is_of_nodes() && asked_since(server, key, begun).await
            })
            .await;
        }
        waiter
    }

    /// The value of the waiter for this key. A node does not keep it; it is in what it was asked.
    pub(crate) async fn waiter(&self, key: &str) -> String {
        if !self.is_of_nodes() {
            return self.places(key).await.remove(0);
        }
        let monitor: Monitor = self.servers[0].monitor();
        let marks = [format!("\"lock:{key}\""), "\"1|x|".to_owned()];
        let mut found = None;
        until("the waiter asks again", CAP, async || {
            let lines = monitor.lines();
            let asks = |it: &&String| {
                it.contains("EVAL") && marks.iter().all(|mark| it.contains(mark.as_str()))
            };
            let values = |it: &String| {
                it.split('"')
                    .find(|it| it.starts_with("1|x|"))
                    .map(Into::into)
            };
            found = lines.iter().find(asks).and_then(values);
            found.is_some()
        })
        .await;
        found.unwrap()
    }
}

/// As [`Lab::lock`].
pub(crate) fn lock(of_nodes: bool, pool: &LockPool, key: &str, ttl: Duration) -> LockRequest {
    if of_nodes {
        return pool.lock(key).ttl(OF_NODES).renew();
    }
    pool.lock(key).ttl(ttl)
}

async fn places_at(server: &RedisServer, key: &str) -> Vec<String> {
    let mut places = Vec::new();
    for queue in ["w", "h"] {
        let queue = format!("lock:@{queue}:{{lock:{key}}}");
        places.extend(
            server
                .ask::<Vec<String>>(&["ZRANGE", &queue, "0", "-1"])
                .await,
        );
    }
    places
}

/// Whether a node was asked for a hint since then, though the address may have been there before: a
/// node that was not needed for the last turn keeps it for a while.
async fn asked_since(node: &RedisServer, key: &str, begun: Instant) -> bool {
    let left = node.pttl(&format!("lock:@h:{{lock:{key}}}")).await;
    let since = i64::try_from(begun.elapsed().as_millis()).unwrap();
    left >= 0 && left + since >= HINTS_TTL_MS
}

/// The last epoch that was drawn at this server, from whichever counter.
pub(crate) async fn counter_at(server: &mut MultiplexedConnection) -> u64 {
    let mut keys = redis::cmd("KEYS");
    let keys: Vec<String> = keys.arg("lock:@fence*").query_async(server).await.unwrap();
    let mut highest = 0;
    for key in keys {
        // One after the other: a cluster's are in different slots.
        let counter: Option<u64> = redis::cmd("GET")
            .arg(key)
            .query_async(server)
            .await
            .unwrap();
        highest = highest.max(counter.unwrap_or(0));
    }
    highest
}

/// The channel in an entry; empty if there is none.
pub(crate) fn channel(entry: &str) -> String {
    let address = entry.split('|').nth(3).unwrap_or_default();
    // A waiter without pushes has no address.
    let channel = address.split_once(';').map(|(_, channel)| channel);
    channel.unwrap_or_default().to_owned()
}
