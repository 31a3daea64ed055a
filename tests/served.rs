//! Servers as the pages say to set them up: with the documented user, and with TLS.

use std::fmt;

use dlock_harness::{Authority, Cluster, RedisServer, Sharded, Watched};
use dlock_runtime::Config;

use crate::patient;

const PAGE: &str = include_str!("../docs/operate/server.md");
const SENTINELS: &str = include_str!("../docs/operate/configuration.md");

/// The rights to a server's own compare-and-delete; older servers have neither, and refuse them.
const NATIVE: [&str; 2] = ["+delex", "+delifeq"];

/// The rules of the user at the sentinels, from the page that has it.
#[must_use]
pub fn documented_sentinel_rules() -> Vec<&'static str> {
    rules(SENTINELS, "ACL SETUSER dlock on >… ")
}

/// The further rules of a user of a cluster, from the page that has them.
#[must_use]
pub fn documented_cluster_rules() -> Vec<&'static str> {
    let more = rules(SENTINELS, "ACL SETUSER dlock +cluster|slots");
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

/// Makes the user `dlock` with the password `secret`, the rights that the page lists for locks and
/// guarded writes, and these further rules; also the right to the server's own compare-and-delete,
/// if it has one.
pub async fn documented_user(server: &RedisServer, more: &[&str]) {
    let locks = documented_rules("ACL SETUSER dlock on >… ");
    let writes = documented_rules("ACL SETUSER dlock ~*{item:* ");
    for rules in [&["reset", "on", ">secret"], &*locks, &*writes, more] {
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

/// Where tests run besides a plain server; `tests/run.sh --rest` runs the conformance suite on
/// each.
pub const TOPOLOGIES: [&str; 4] = ["tls", "sentinel", "sharded", "cluster"];

/// A server in one of the [topologies](TOPOLOGIES), with the documented users `dlock` and `plain`.
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
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "plain",
            Self::Tls { .. } => "tls",
            Self::Sharded(_) => "sharded",
            Self::Cluster(_) => "cluster",
            Self::Watched(_) => "sentinel",
        })
    }
}

impl Served {
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
            other => panic!("{other} is none of {TOPOLOGIES:?}"),
        });
        let more = match &served.0 {
            Topology::Cluster(_) => [more, &documented_cluster_rules()].concat(),
            _ => more.to_vec(),
        };
        for server in served.servers() {
            documented_user(server, &more).await;
            documented_plain_user(server).await;
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
        }
    }

    /// For a pool of this user.
    ///
    /// # Panics
    /// Never: a server with TLS has a port for it.
    pub fn config(&self, user: &str) -> Config {
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
        };
        let config = patient(url.replacen("://", &format!("://{user}:secret@"), 1));
        match (&self.0, user) {
            (Topology::Sharded(_), "plain") => config.counter_per_slot().without_scripts(),
            (Topology::Sharded(_), _) => config.counter_per_slot(),
            (_, "plain") => config.without_scripts(),
            _ => config,
        }
    }
}
