//! A master with two replicas, watched by three sentinels: for failovers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::server::RedisServer;
use crate::wait::until;

const CAP: Duration = Duration::from_secs(30);

/// The name by which the sentinels know the master.
pub const MASTER: &str = "locks";

/// Three servers, of which one is the master, and three sentinels that make another one the master
/// when it has been away for half a second.
#[derive(Debug)]
#[must_use = "dropping it kills the servers"]
pub struct Watched {
    /// The first one begins as the master.
    pub servers: Vec<RedisServer>,
    /// All three vote.
    pub sentinels: Vec<RedisServer>,
}

impl Watched {
    /// Starts all and returns once the replicas have the master's data, and each sentinel knows the
    /// others and the replicas.
    pub async fn start() -> Self {
        let fast = [
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
        ];
        let master = RedisServer::builder().args(fast).start();
        let port = master.port().to_string();
        let replica = || {
            let of = ["--replicaof", "127.0.0.1", &port];
            RedisServer::builder().args(fast).args(of).start()
        };
        let sentinel = || {
            let lines = format!(
                "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds {MASTER} 500\n\
                 sentinel failover-timeout {MASTER} 3000\n\
                 sentinel parallel-syncs {MASTER} 2\n"
            );
            RedisServer::builder().sentinel(lines).start()
        };
        let watched = Self {
            servers: vec![master, replica(), replica()],
            sentinels: (0..3).map(|_| sentinel()).collect(),
        };
        watched.settled().await;
        watched
    }

    /// `redis+sentinel://…`, of all three sentinels.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts = self.sentinels.iter().map(|it| it.addr().to_string());
        format!(
            "redis+sentinel://{}/{MASTER}",
            hosts.collect::<Vec<_>>().join(",")
        )
    }

    /// The server that a sentinel names. Panics if it is none of these.
    pub async fn named_by(&self, sentinel: usize) -> usize {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
        let (_, port): (String, u16) = self.sentinels[sentinel].ask(&ask).await;
        let named = self.servers.iter().position(|it| it.port() == port);
        named.unwrap_or_else(|| panic!("port {port} is no server's"))
    }

    /// Waits until all sentinels that answer name another server than this one, and that one says
    /// that it is a master. Returns it.
    pub async fn moved_from(&self, old: usize, sentinels: &[usize]) -> usize {
        let mut new = old;
        until("another server is the master", CAP, async || {
            for sentinel in sentinels {
                new = self.named_by(*sentinel).await;
                if new == old {
                    return false;
                }
            }
            is_master(&self.servers[new]).await
        })
        .await;
        new
    }

    /// Waits until each sentinel sees the other two, and two replicas that follow the master.
    pub async fn settled(&self) {
        until(
            "the sentinels know each other and the replicas",
            CAP,
            async || {
                for sentinel in &self.sentinels {
                    let of: BTreeMap<String, String> =
                        sentinel.ask(&["SENTINEL", "MASTER", MASTER]).await;
                    let is = |name: &str, value: &str| of.get(name).is_some_and(|it| it == value);
                    let is_known = is("num-other-sentinels", "2") && is("num-slaves", "2");
                    if !is_known || !is("flags", "master") {
                        return false;
                    }
                }
                let master = &self.servers[self.named_by(0).await];
                let info: String = master.ask(&["INFO", "replication"]).await;
                info.matches("state=online").count() == 2
            },
        )
        .await;
    }
}

async fn is_master(server: &RedisServer) -> bool {
    let info: String = server.ask(&["INFO", "replication"]).await;
    info.contains("role:master")
}
