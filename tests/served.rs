//! Servers as the pages say to set them up: with the documented user, with TLS, in each topology;
//! and wires to them.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlock_harness::{Authority, Cluster, DelayProxy, Proxy, RedisServer, Sharded, Watched, until};
use dlock_runtime::Config;
use tokio::net::TcpStream;

use crate::{more_patient, patient};

const PAGE: &str = include_str!("../docs/operate/server.md");
const SENTINELS: &str = include_str!("../docs/topologies/sentinel.md");
const CLUSTER: &str = include_str!("../docs/topologies/cluster.md");
const NODES: &str = include_str!("../docs/topologies/several-servers.md");

/// The rights to a server's own compare-and-delete; older servers have neither, and refuse them.
const NATIVE: [&str; 2] = ["+delex", "+delifeq"];

/// The rules of the user at the sentinels, from the page that has it.
#[must_use]
pub fn documented_sentinel_rules() -> Vec<&'static str> {
    rules(SENTINELS, "ACL SETUSER dlock on >… ")
}

/// The further rules of a user of independent nodes, from the page that has them.
#[must_use]
pub fn documented_node_rules() -> Vec<&'static str> {
    rules(NODES, "ACL SETUSER dlock ")
}

/// The further rules of a user of a cluster, from the page that has them.
#[must_use]
pub fn documented_cluster_rules() -> Vec<&'static str> {
    let more = rules(CLUSTER, "ACL SETUSER dlock +cluster|slots");
    [&["+cluster|slots"], &more[1..]].concat()
}

/// Makes the user `dlock` with the password `secret` at a sentinel.
pub async fn documented_sentinel_user(sentinel: &RedisServer) {
    let reset = ["ACL", "SETUSER", "dlock", "reset", "on", ">secret"];
    let rules = documented_sentinel_rules();
    sentinel.cmd(&[&reset[..], &rules].concat()).await;
}

/// The rules of a line of the page that sets up the user `dlock`, from the word after `begin`.
///
/// # Panics
/// If the page has no such line.
#[must_use]
pub fn documented_rules(begin: &str) -> Vec<&'static str> {
    rules(PAGE, begin)
}

fn rules(page: &'static str, begin: &str) -> Vec<&'static str> {
    let line = page.lines().find_map(|line| line.strip_prefix(begin));
    line.unwrap_or_else(|| panic!("no line begins with {begin:?}"))
        .split(' ')
        .collect()
}

/// Makes the user `dlock` with the password `secret`, the rights that the page lists for locks, and
/// these further rules; also the right to the server's own compare-and-delete, if it has one.
pub async fn documented_user(server: &RedisServer, more: &[&str]) {
    let locks = documented_rules("ACL SETUSER dlock on >… ");
    for rules in [&["reset", "on", ">secret"], &*locks, more] {
        server
            .cmd(&[&["ACL", "SETUSER", "dlock"], rules].concat())
            .await;
    }
    for right in NATIVE {
        let _ = server.try_cmd(&["ACL", "SETUSER", "dlock", right]).await;
    }
}

/// Makes the user `plain` with the password `secret` and the rights that the page lists for pools
/// without scripts; also the right to the server's own compare-and-delete, if it has one.
pub async fn documented_plain_user(server: &RedisServer) {
    let reset = ["ACL", "SETUSER", "plain", "reset", "on", ">secret"];
    let rules = documented_rules("ACL SETUSER plain on >… ");
    server.cmd(&[&reset[..], &rules].concat()).await;
    for right in NATIVE {
        let _ = server.try_cmd(&["ACL", "SETUSER", "plain", right]).await;
    }
}

/// A server that listens with TLS, and the authority of its certificate.
pub fn with_tls() -> (RedisServer, Authority) {
    let authority = Authority::new();
    let identity = authority.issue("server", &["127.0.0.1", "localhost"]);
    let server = RedisServer::builder().tls(&authority, &identity, false);
    (server.start(), authority)
}

/// The longest lease at a quorum: each of its nodes votes once it is up for longer.
pub const QUORUM_TTL: Duration = Duration::from_secs(10);

/// Where tests run besides a plain server and a quorum; `tests/run.sh --rest` runs the conformance
/// suite on each.
pub const TOPOLOGIES: [&str; 4] = ["tls", "sentinel", "sharded", "cluster"];

/// A server in one of the [topologies](TOPOLOGIES), or three of which a quorum decides, with the
/// documented users `dlock` and `plain`.
#[derive(Debug)]
pub struct Served(Topology);

enum Topology {
    Plain(RedisServer),
    Tls {
        server: RedisServer,
        _authority: Box<Authority>, // its files go with it
    },
    /// Behind a proxy that shards.
    Sharded(Sharded),
    /// Three masters, each with a third of the slots.
    Cluster(Cluster),
    /// The master behind sentinels, whose user is the documented one too.
    Watched(Watched),
    /// Independent nodes.
    Quorum(Vec<RedisServer>),
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "plain",
            Self::Tls { .. } => "tls",
            Self::Sharded(_) => "sharded",
            Self::Cluster(_) => "cluster",
            Self::Watched(_) => "sentinel",
            Self::Quorum(_) => "quorum",
        })
    }
}

impl Served {
    /// This server, as a plain one.
    pub async fn of(server: RedisServer) -> Self {
        documented_user(&server, &[]).await;
        documented_plain_user(&server).await;
        Self(Topology::Plain(server))
    }

    /// An empty name is a plain server's. `more`: further rules for `dlock`.
    ///
    /// # Panics
    /// If there is no such topology.
    pub async fn start(topology: &str, more: &[&str]) -> Self {
        let served = Self(match topology {
            "" => Topology::Plain(RedisServer::start()),
            "tls" => {
                let (server, authority) = with_tls();
                Topology::Tls {
                    server,
                    _authority: Box::new(authority),
                }
            }
            "sharded" => Topology::Sharded(Sharded::start().await),
            "cluster" => Topology::Cluster(Cluster::start(3).await),
            "sentinel" => {
                let watched = Watched::start_steady().await;
                for sentinel in &watched.sentinels {
                    documented_sentinel_user(sentinel).await;
                }
                Topology::Watched(watched)
            }
            "quorum" => Topology::Quorum((0..3).map(|_| RedisServer::start()).collect()),
            other => panic!("{other} is none of {TOPOLOGIES:?}"),
        });
        let more = match &served.0 {
            Topology::Cluster(_) => [more, &documented_cluster_rules()].concat(),
            Topology::Quorum(_) => [more, &documented_node_rules()].concat(),
            _ => more.to_vec(),
        };
        for server in served.servers() {
            documented_user(server, &more).await;
            documented_plain_user(server).await;
        }
        if let Topology::Quorum(nodes) = &served.0 {
            for node in nodes {
                until("it votes", QUORUM_TTL * 3, async || {
                    uptime(node).await > QUORUM_TTL
                })
                .await;
            }
        }
        served
    }

    /// The one that has the locks, or one of those.
    pub fn server(&self) -> &RedisServer {
        self.servers()[0]
    }

    /// Those that have the locks.
    pub fn servers(&self) -> Vec<&RedisServer> {
        match &self.0 {
            Topology::Plain(server) | Topology::Tls { server, .. } => vec![server],
            Topology::Sharded(sharded) => vec![&sharded.server],
            Topology::Watched(watched) => vec![&watched.servers[0]],
            Topology::Cluster(cluster) => cluster.nodes.iter().collect(),
            Topology::Quorum(nodes) => nodes.iter().collect(),
        }
    }

    /// The ports at which clients without TLS reach them.
    pub fn ports(&self) -> Vec<u16> {
        match &self.0 {
            Topology::Sharded(sharded) => vec![sharded.addr().port()],
            _ => self.servers().iter().map(|it| it.port()).collect(),
        }
    }

    /// For a pool of this user.
    ///
    /// # Panics
    /// Never: a server with TLS has a port for it.
    pub fn config(&self, user: &str) -> Config {
        let named = |url: String| url.replacen("://", &format!("://{user}:secret@"), 1);
        let url = match &self.0 {
            Topology::Plain(server) => server.url(),
            Topology::Tls { server, .. } => server
                .tls_url()
                .unwrap_or_else(|| panic!("it has a port for TLS")),
            Topology::Sharded(sharded) => sharded.url(),
            Topology::Cluster(cluster) => cluster.url(),
            Topology::Watched(watched) => {
                watched.url() + "?sentinel_user=dlock&sentinel_pass=secret"
            }
            Topology::Quorum(nodes) => {
                let urls = nodes.iter().map(|it| named(it.url()));
                let config = Config::redlock(urls).max_ttl(QUORUM_TTL);
                return more_patient(config);
            }
        };
        let config = patient(named(url));
        match (&self.0, user) {
            (Topology::Sharded(_), "plain") => config.counter_per_slot().without_scripts(),
            (Topology::Sharded(_), _) => config.counter_per_slot(),
            (_, "plain") => config.without_scripts(),
            _ => config,
        }
    }
}

/// How long a server has been up, as it says.
pub async fn uptime(server: &RedisServer) -> Duration {
    let info: String = server.ask(&["INFO", "server"]).await;
    let line = info
        .lines()
        .find_map(|it| it.strip_prefix("uptime_in_seconds:"));
    Duration::from_secs(line.map_or(0, |it| it.trim().parse().unwrap_or(0)))
}

/// A wire to each server, whatever the topology, made when it is first used.
#[derive(Debug, Clone, Default)]
pub struct Wires {
    round_trip: Duration,
    by_port: Arc<Mutex<HashMap<u16, Wire>>>,
}

#[derive(Debug, Clone)]
enum Wire {
    /// Can be cut, and fall silent.
    Short(Arc<Proxy>),
    Long(Arc<DelayProxy>),
}

impl Wires {
    /// Wires that are long, and nothing else.
    #[must_use]
    pub fn long(round_trip: Duration) -> Self {
        Self {
            round_trip,
            ..Self::default()
        }
    }

    /// The configuration of a pool that connects over them.
    pub fn over(&self, config: Config) -> Config {
        let wires = self.clone();
        config.connector(move |host: String, port| {
            let port = match wires.wire(port) {
                Wire::Short(wire) => wire.addr().port(),
                Wire::Long(wire) => wire.addr().port(),
            };
            async move { TcpStream::connect((host, port)).await }
        })
    }

    /// The wire to this port.
    ///
    /// # Panics
    /// If it is a long one, which can't be cut.
    #[must_use]
    pub fn to(&self, port: u16) -> Arc<Proxy> {
        match self.wire(port) {
            Wire::Short(wire) => wire,
            Wire::Long(_) => panic!("the wire to {port} is a long one"),
        }
    }

    /// This happens to each wire.
    pub fn all_are(&self, fault: impl Fn(&Proxy)) {
        for wire in self.all().values() {
            if let Wire::Short(wire) = wire {
                fault(wire);
            }
        }
    }

    fn wire(&self, port: u16) -> Wire {
        let there = SocketAddr::from(([127, 0, 0, 1], port));
        let start = || match self.round_trip {
            Duration::ZERO => Wire::Short(Arc::new(Proxy::start(there))),
            it => Wire::Long(Arc::new(DelayProxy::start(there, it / 2))),
        };
        self.all().entry(port).or_insert_with(start).clone()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<u16, Wire>> {
        self.by_port.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
