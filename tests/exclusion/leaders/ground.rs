//! Where candidates campaign: one server, sentinels, a cluster or nodes of a quorum, and how each of
//! them loses a server.

use std::time::{Duration, Instant};

use dlock_harness::{Cluster, RedisServer, Watched, until};
use dlock_tests::served::uptime;

use super::{CAP, NAME, TTL};

const MASTERS: usize = 3;

/// How long a master of a cluster is away until its replica takes its place.
const SOON: Duration = Duration::from_secs(1);

pub(super) enum Ground {
    OneServer(RedisServer),
    Watched(Watched),
    /// Its masters have replicas.
    Cluster(Cluster),
    Nodes(Vec<RedisServer>),
}

impl Ground {
    pub(super) async fn start(name: &str) -> Self {
        match name {
            "one_server" => Self::OneServer(RedisServer::start()),
            "sentinels" => Self::Watched(Watched::start().await),
            "a_cluster" => Self::Cluster(Cluster::start_with_replicas(MASTERS, SOON).await),
            "a_quorum" => {
                let ground = Self::Nodes((0..3).map(|_| RedisServer::start()).collect());
                ground.all_vote().await;
                ground
            }
            other => panic!("no ground {other:?}"),
        }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::OneServer(server) => server.url(),
            Self::Watched(watched) => watched.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Nodes(nodes) => {
                let hosts: Vec<_> = nodes.iter().map(|it| it.addr().to_string()).collect();
                format!("redlock://{}", hosts.join(","))
            }
        }
    }

    /// A new master may lack what the old one granted last.
    pub(super) fn may_forget(&self) -> bool {
        matches!(self, Self::Watched(_) | Self::Cluster(_))
    }

    pub(super) fn loses_servers(&self) -> bool {
        !matches!(self, Self::OneServer(_))
    }

    pub(super) fn is_quorum(&self) -> bool {
        matches!(self, Self::Nodes(_))
    }

    fn servers(&self) -> &[RedisServer] {
        match self {
            Self::OneServer(server) => std::slice::from_ref(server),
            Self::Watched(watched) => &watched.servers,
            Self::Cluster(cluster) => &cluster.nodes,
            Self::Nodes(nodes) => nodes,
        }
    }

    /// Ends all connections of clients.
    pub(super) async fn cuts(&self) {
        for server in self.servers() {
            server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        }
    }

    /// The lock's server, or the nth of the nodes, is killed and comes back. Returns how long nobody may
    /// have been able to lock.
    pub(super) async fn loses_one(&self, nth: usize) -> Duration {
        let begun = Instant::now();
        match self {
            Self::OneServer(_) => {}
            Self::Watched(watched) => {
                let old = watched.named_by(0).await;
                watched.servers[old].kill9();
                let new = watched.moved_from(old, &[0, 1, 2]).await;
                watched.servers[old].restart_empty();
                let port = watched.servers[new].port().to_string();
                let follow = ["REPLICAOF", "127.0.0.1", &port];
                watched.servers[old].cmd(&follow).await;
                watched.settled().await;
            }
            Self::Cluster(cluster) => {
                let old = cluster.owner(cluster.slot(NAME).await).await;
                let new = (old + MASTERS) % cluster.nodes.len(); // its replica
                cluster.replicated(old, new).await;
                cluster.nodes[old].kill9();
                until("the replica is the master", CAP, async || {
                    let role: String = cluster.nodes[new].ask(&["INFO", "replication"]).await;
                    role.contains("role:master")
                })
                .await;
                cluster.nodes[old].restart();
                cluster.agrees(MASTERS).await;
                cluster.replicated(new, old).await;
            }
            Self::Nodes(nodes) => {
                let node = &nodes[nth % nodes.len()];
                node.kill9();
                node.restart_empty();
                self.all_vote().await;
            }
        }
        begun.elapsed()
    }

    async fn all_vote(&self) {
        for node in self.servers() {
            until("the node is up for long enough to vote", CAP, async || {
                uptime(node).await > TTL
            })
            .await;
        }
    }
}
