//! A master with two replicas, watched by three sentinels: for failovers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::certificates::Authority;
use crate::server::RedisServer;
use crate::wait::until;

const CAP: Duration = Duration::from_secs(30);

/// How long a master is away until the sentinels choose another one.
const SOON: Duration = Duration::from_millis(500);
const LATE: Duration = Duration::from_secs(60);

/// The name by which the sentinels know the master.
pub const MASTER: &str = "locks";

const NAMES: [&str; 2] = ["127.0.0.1", "localhost"];

/// Three servers, of which one is the master, and three sentinels that make another one the master
/// when it has been away for a while.
#[derive(Debug)]
#[must_use = "dropping it kills the servers"]
pub struct Watched {
    /// The first one begins as the master.
    pub servers: Vec<RedisServer>,
    /// All three vote.
    pub sentinels: Vec<RedisServer>,
    authority: Option<Authority>,
}

impl Watched {
    /// Starts all and returns once the replicas have the master's data, and each sentinel knows the
    /// others and the replicas. The master is another one after half a second without it.
    pub async fn start() -> Self {
        Self::with(None, SOON).await
    }

    /// The same, but the master stays where it is, also on a machine that stalls.
    pub async fn start_steady() -> Self {
        Self::with(None, LATE).await
    }

    /// Like [`start`](Self::start), where all speak TLS to each other; their ports without TLS are
    /// for the tests.
    pub async fn start_with_tls() -> Self {
        Self::with(Some(Authority::new()), SOON).await
    }

    async fn with(authority: Option<Authority>, down_after: Duration) -> Self {
        let fast = [
            "--repl-diskless-sync-delay",
            "0",
            "--repl-ping-replica-period",
            "1",
        ];
        let identity = authority.as_ref().map(|it| it.issue("server", &NAMES));
        let builder = || match (&authority, &identity) {
            (Some(authority), Some(identity)) => RedisServer::builder()
                .tls(authority, identity, false)
                .args(["--tls-replication", "yes"]),
            _ => RedisServer::builder(),
        };
        let master = builder().args(fast).start();
        let port = port(&master).to_string();
        let down_after = down_after.as_millis();
        let replica = || {
            let of = ["--replicaof", "127.0.0.1", &port];
            builder().args(fast).args(of).start()
        };
        let sentinel = || {
            let lines = format!(
                "sentinel monitor {MASTER} 127.0.0.1 {port} 2\n\
                 sentinel down-after-milliseconds {MASTER} {down_after}\n\
                 sentinel failover-timeout {MASTER} 3000\n\
                 sentinel parallel-syncs {MASTER} 2\n"
            );
            builder().sentinel(lines).start()
        };
        let watched = Self {
            servers: vec![master, replica(), replica()],
            sentinels: (0..3).map(|_| sentinel()).collect(),
            authority,
        };
        watched.settled().await;
        watched
    }

    /// `redis+sentinel://…` of all three sentinels; with TLS `rediss+sentinel://…?tls_ca=…`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts = self.sentinels.iter();
        let hosts: Vec<_> = hosts.map(|it| format!("127.0.0.1:{}", port(it))).collect();
        let hosts = hosts.join(",");
        match &self.authority {
            None => format!("redis+sentinel://{hosts}/{MASTER}"),
            Some(authority) => {
                let authority = authority.file();
                format!(
                    "rediss+sentinel://{hosts}/{MASTER}?tls_ca={}",
                    authority.display()
                )
            }
        }
    }

    /// The server that a sentinel names. Panics if it is none of these.
    pub async fn named_by(&self, sentinel: usize) -> usize {
        let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
        let (_, at): (String, u16) = self.sentinels[sentinel].ask(&ask).await;
        let named = self.servers.iter().position(|it| port(it) == at);
        named.unwrap_or_else(|| panic!("port {at} is no server's"))
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

/// The port with TLS, if there is one.
fn port(server: &RedisServer) -> u16 {
    server.tls_addr().map_or(server.port(), |addr| addr.port())
}

async fn is_master(server: &RedisServer) -> bool {
    let info: String = server.ask(&["INFO", "replication"]).await;
    info.contains("role:master")
}
