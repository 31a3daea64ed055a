//! Where a storm rages: one server, sentinels, a cluster, nodes of a quorum or PostgreSQL, and how each of
//! them loses a server.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dlock_harness::{Cluster, MASTER, PostgresServer, RedisServer, Watched, until};
use dlock_runtime::Config;
use dlock_tests::locks;
use dlock_tests::served::uptime;

use crate::fleet::CAP;

/// The lease of each lock, and the longest that the pools know.
pub(crate) const TTL: Duration = Duration::from_millis(1_500);

const MASTERS: usize = 3;

/// Of the tables.
const SCHEMA: &str = "storm";

/// Nobody takes the place of a master that only stalls, on a busy machine.
const STEADY: Duration = Duration::from_secs(60);

/// What the loss of a server explains.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// What a master did then, in its time in µs, its replicas may not have heard.
    pub(crate) unheard: RangeInclusive<u64>,
    /// How long nobody may have been able to lock.
    pub(crate) away: Duration,
}

pub(crate) enum Ground {
    OneServer(RedisServer),
    Watched(Watched),
    /// Its masters have replicas.
    Cluster(Cluster),
    Nodes(Vec<RedisServer>),
    Database(PostgresServer),
}

impl Ground {
    pub(crate) async fn start(name: &str) -> Self {
        match name {
            "one_server" => Self::OneServer(RedisServer::start()),
            "sentinels" => Self::Watched(Watched::start_steady().await),
            "a_cluster" => Self::Cluster(Cluster::start_with_replicas(MASTERS, STEADY).await),
            "a_quorum" => {
                let ground = Self::Nodes((0..3).map(|_| RedisServer::start()).collect());
                ground.all_vote().await;
                ground
            }
            "postgres" => {
                let server = PostgresServer::start();
                let config = Config::new(server.url(SCHEMA));
                config.migrate().await.unwrap();
                Self::Database(server)
            }
            other => panic!("no ground {other:?}"),
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::OneServer(server) => server.url(),
            Self::Watched(watched) => watched.url(),
            Self::Cluster(cluster) => cluster.url(),
            Self::Nodes(nodes) => {
                let hosts: Vec<_> = nodes.iter().map(|it| it.addr().to_string()).collect();
                format!("redlock://{}", hosts.join(","))
            }
            Self::Database(server) => server.url(SCHEMA),
        }
    }

    /// A new master may lack what the old one granted last.
    pub(crate) fn may_forget(&self) -> bool {
        matches!(self, Self::Watched(_) | Self::Cluster(_))
    }

    pub(crate) fn loses_servers(&self) -> bool {
        !matches!(self, Self::OneServer(_))
    }

    pub(crate) fn is_quorum(&self) -> bool {
        matches!(self, Self::Nodes(_))
    }

    pub(crate) fn servers(&self) -> &[RedisServer] {
        match self {
            Self::OneServer(server) => std::slice::from_ref(server),
            Self::Watched(watched) => &watched.servers,
            Self::Cluster(cluster) => &cluster.nodes,
            Self::Nodes(nodes) => nodes,
            Self::Database(_) => &[],
        }
    }

    /// Deletes what a server stores of a lock, if that server is ready.
    pub(crate) async fn deletes(&self, lock: &str) {
        if let Self::Database(server) = self {
            // Not its record, which is in the same row.
            let text = format!(
                "UPDATE {SCHEMA}.lock SET version = version + 1, holder = '', ends = 0, sole = NULL WHERE key = '{lock}'"
            );
            server.try_sql(&text);
            return;
        }
        let server = &self.servers()[self.has(lock).await];
        let _ = server.try_cmd(&["DEL", lock]).await; // its node may not be ready yet
    }

    /// Waits until nothing is left but counters.
    pub(crate) async fn is_free(&self, cap: Duration) {
        locks::until_only_counters(self.servers(), cap).await;
        if let Self::Database(server) = self {
            let now = "extract(epoch FROM clock_timestamp()) * 1000000";
            let left = format!(
                "SELECT key FROM {SCHEMA}.lock WHERE greatest(ends, record_ends) > {now}
                UNION ALL SELECT key FROM {SCHEMA}.waiter WHERE alive_until > {now}"
            );
            until("nothing is left", cap, async || {
                server.sql(&left).is_empty()
            })
            .await;
        }
    }

    /// The number of the server that has this key; of a quorum, of any.
    pub(crate) async fn has(&self, key: &str) -> usize {
        match self {
            Self::OneServer(_) | Self::Nodes(_) | Self::Database(_) => 0,
            Self::Watched(watched) => watched.named_by(0).await,
            Self::Cluster(cluster) => cluster.owner(cluster.slot(key).await).await,
        }
    }

    /// Ends all connections of clients.
    pub(crate) async fn cuts(&self) {
        for server in self.servers() {
            server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await;
        }
        if let Self::Database(server) = self {
            server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dlock'");
        }
    }

    /// The server of this key, or the nth of the nodes, is killed and comes back. For so long before, its
    /// replicas hear nothing from it.
    pub(crate) async fn loses_one(&self, key: &str, nth: usize, deaf: Duration) -> Loss {
        let begun = Instant::now();
        let mut unheard = 0..=0;
        match self {
            Self::OneServer(_) => {}
            Self::Watched(watched) => {
                let old = self.has(key).await;
                unheard = self.kills(old, &[(old + 1) % 3, (old + 2) % 3], deaf).await;
                until("a replica is chosen", CAP, async || {
                    let fail_over = ["SENTINEL", "FAILOVER", MASTER];
                    watched.sentinels[0].try_cmd(&fail_over).await.is_ok()
                })
                .await;
                let new = watched.moved_from(old, &[0, 1, 2]).await;
                watched.servers[old].restart_following(&watched.servers[new]);
                watched.settled().await;
            }
            Self::Cluster(cluster) => {
                let old = self.has(key).await;
                let new = (old + MASTERS) % cluster.nodes.len(); // its replica
                unheard = self.kills(old, &[new], deaf).await;
                let take_over = ["CLUSTER", "FAILOVER", "TAKEOVER"];
                cluster.nodes[new].cmd(&take_over).await;
                until("the replica is the master", CAP, async || {
                    let role: String = cluster.nodes[new].ask(&["INFO", "replication"]).await;
                    role.contains("role:master")
                })
                .await;
                cluster.nodes[old].restart();
                cluster.agrees(MASTERS).await;
                cluster.replicated(new, old).await;
            }
            Self::Database(server) => {
                server.crash();
                server.restart();
            }
            Self::Nodes(nodes) => {
                let node = &nodes[nth % nodes.len()];
                node.kill9();
                node.restart_empty();
                self.all_vote().await;
            }
        }
        Loss {
            unheard,
            away: begun.elapsed(),
        }
    }

    /// Kills a master. Returns when it may have done what these, its replicas, have not heard.
    async fn kills(
        &self,
        master: usize,
        replicas: &[usize],
        deaf: Duration,
    ) -> RangeInclusive<u64> {
        let (master, since) = (&self.servers()[master], now());
        let replicas = || replicas.iter().map(|it| &self.servers()[*it]);
        for replica in replicas() {
            replica.caught_up(master).await;
        }
        if !deaf.is_zero() {
            replicas().for_each(RedisServer::stop_signal);
            master.cmd(&["CLIENT", "KILL", "TYPE", "replica"]).await;
            tokio::time::sleep(deaf).await;
        }
        master.kill9();
        let killed = now();
        if !deaf.is_zero() {
            replicas().for_each(RedisServer::cont);
        }
        since..=killed
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

/// The time of this host, which is each server's, in µs.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}
