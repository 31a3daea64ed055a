//! The backends that a case runs on, and the helpers that all cases share. It tests nothing itself.

use std::time::Duration;

use dlock_harness::{Authority, RedisServer, Sharded, Watched, until};
use dlock_runtime::{Config, LockGuard, LockPool};
use dlock_tests::served::{
    documented_plain_user, documented_sentinel_user, documented_user, with_tls,
};
use tokio::time::Instant;

/// Turns local hand-off off.
pub(crate) fn by_the_server(config: Config) -> Config {
    config.local_handoff(0, Duration::ZERO)
}

pub(crate) async fn on_memory(case: impl AsyncFnOnce(LockPool)) {
    case(LockPool::connect("memory://").await.unwrap()).await;
}

pub(crate) async fn on_memory_by_the_server(case: impl AsyncFnOnce(LockPool)) {
    let config = by_the_server(Config::new("memory://"));
    case(LockPool::connect(config).await.unwrap()).await;
}

pub(crate) async fn on_redis(case: impl AsyncFnOnce(LockPool)) {
    let served = Served::start().await;
    case(LockPool::connect(served.config()).await.unwrap()).await;
    nothing_left(served.server()).await;
}

pub(crate) async fn on_redis_without_scripts(case: impl AsyncFnOnce(LockPool)) {
    let served = Served::start().await;
    documented_plain_user(served.server()).await;
    let config = served.config_of("plain").without_scripts();
    case(LockPool::connect(config).await.unwrap()).await;
    nothing_left(served.server()).await;
}

pub(crate) async fn on_redis_by_the_server(case: impl AsyncFnOnce(LockPool)) {
    let served = Served::start().await;
    let config = by_the_server(served.config());
    case(LockPool::connect(config).await.unwrap()).await;
    nothing_left(served.server()).await;
}

/// Where the cases run besides a plain server; `tests/run.sh --topologies` runs all of them.
const TOPOLOGIES: [&str; 3] = ["tls", "sentinel", "sharded"];

#[test]
fn every_topology_is_run() {
    let script = include_str!("../run.sh");
    let list = format!("for topology in {}; do", TOPOLOGIES.join(" "));
    assert!(script.contains(&list), "{list}");
}

/// A server for one case, as `DLOCK_TEST_TOPOLOGY` says. Its users are the documented ones.
enum Served {
    Plain(RedisServer),
    Tls {
        server: RedisServer,
        _authority: Box<Authority>,
    },
    /// Behind a proxy that shards.
    Sharded(Sharded),
    /// The master behind sentinels, whose user is the documented one too.
    Watched(Watched),
}

impl Served {
    async fn start() -> Self {
        let topology = std::env::var("DLOCK_TEST_TOPOLOGY").unwrap_or_default();
        let served = match topology.as_str() {
            "" => Self::Plain(RedisServer::start()),
            "tls" => {
                let (server, authority) = with_tls();
                Self::Tls {
                    server,
                    _authority: Box::new(authority),
                }
            }
            "sharded" => Self::Sharded(Sharded::start().await),
            "sentinel" => {
                let watched = Watched::start_steady().await;
                for sentinel in &watched.sentinels {
                    documented_sentinel_user(sentinel).await;
                }
                Self::Watched(watched)
            }
            other => panic!("DLOCK_TEST_TOPOLOGY={other} is none of {TOPOLOGIES:?}"),
        };
        documented_user(served.server(), &["~*{*"]).await;
        served
    }

    fn server(&self) -> &RedisServer {
        match self {
            Self::Plain(server) | Self::Tls { server, .. } => server,
            Self::Sharded(sharded) => &sharded.server,
            Self::Watched(watched) => &watched.servers[0],
        }
    }

    fn config(&self) -> Config {
        self.config_of("dlock")
    }

    fn config_of(&self, user: &str) -> Config {
        let url = match self {
            Self::Plain(server) => server.url(),
            Self::Tls { server, .. } => server.tls_url().expect("it has a port for TLS"),
            Self::Sharded(sharded) => sharded.url(),
            Self::Watched(watched) => watched.url() + "?sentinel_user=dlock&sentinel_pass=secret",
        };
        let config = patient(url.replacen("://", &format!("://{user}:secret@"), 1));
        match self {
            Self::Sharded(_) => config.counter_per_slot(),
            _ => config,
        }
    }
}

/// Long timeouts, for a machine that may stall for a second or two, and where a thousand commands
/// may take some seconds: no case here is about a server that does not answer.
pub(crate) fn patient(url: impl Into<String>) -> Config {
    Config::new(url)
        .connect_timeout(Duration::from_secs(20))
        .command_timeout(Duration::from_secs(20))
}

/// Whether a lock that is granted in turn is a claim of 3 s at first. Not on `memory://`, where no
/// single waiter can be stopped.
pub(crate) fn grants_claims(pool: &LockPool) -> bool {
    !format!("{pool:?}").contains("memory://")
}

/// Waits until only epoch counters are left, which stay by design.
pub(crate) async fn nothing_left(server: &RedisServer) {
    until(
        "only the counters are left",
        Duration::from_secs(10),
        async || server.keys().await.iter().all(|key| key.contains("@fence")),
    )
    .await;
}

/// Lets every spawned task be polled until it waits, and waits until the server has answered what
/// they have sent: a connection's commands are answered in order.
pub(crate) async fn settled(pool: &LockPool) {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    pool.ping().await.unwrap();
    tokio::task::yield_now().await;
}

/// Whether there was a guard; it is released when this returns, not in the background.
pub(crate) async fn given_back(guard: Option<LockGuard>) -> bool {
    let Some(guard) = guard else {
        return false;
    };
    guard.release().await.unwrap();
    true
}

/// Waits for a condition on tokio's clock, which may be paused.
pub(crate) async fn soon(what: &str, mut cond: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !cond().await {
        assert!(begun.elapsed() < LONG / 2, "still not so: {what}");
        tokio::time::sleep(ms(5)).await;
    }
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Longer than any test waits: what ends earlier ended for another reason.
pub(crate) const LONG: Duration = Duration::from_secs(60);
