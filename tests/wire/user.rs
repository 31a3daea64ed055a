//! A server with a user that has the rights of the pages, and loses some of them.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest, Wait};
use dlock_tests::served::Served;
use tokio::task::JoinHandle;

pub(crate) const CAP: Duration = Duration::from_secs(20);

pub(crate) type Waiter = JoinHandle<Result<LockGuard, LockError>>;

pub(crate) fn wait_for(request: LockRequest) -> Waiter {
    tokio::spawn(request.wait(Wait::Forever).acquire())
}

/// A server, and which of its users the pools are of.
#[derive(Debug)]
pub(crate) struct Lab {
    served: Served,
    /// `dlock`, or `plain`, whose pools use no scripts.
    pub(crate) user: &'static str,
}

impl Lab {
    pub(crate) async fn new(topology: &str, user: &'static str) -> Self {
        let served = Served::start(topology, &[]).await;
        Self { served, user }
    }

    /// The user `dlock` of this server.
    pub(crate) async fn of(server: RedisServer) -> Self {
        Self {
            served: Served::of(server).await,
            user: "dlock",
        }
    }

    pub(crate) fn server(&self) -> &RedisServer {
        self.served.server()
    }

    pub(crate) fn has_scripts(&self) -> bool {
        self.user == "dlock"
    }

    /// Changes the user's rules.
    pub(crate) async fn rules(&self, rules: impl IntoIterator<Item = &str>) {
        let mut words = vec!["ACL", "SETUSER", self.user];
        words.extend(rules);
        self.each(&words).await;
    }

    pub(crate) fn servers(&self) -> Vec<&RedisServer> {
        self.served.servers()
    }

    /// Sends this to each server.
    pub(crate) async fn each(&self, words: &[&str]) {
        for server in self.servers() {
            server.cmd(words).await;
        }
    }

    /// The keys of all servers.
    pub(crate) async fn keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for server in self.servers() {
            keys.extend(server.keys().await);
        }
        keys
    }

    /// Takes away a right such as `+get`.
    pub(crate) async fn deny(&self, right: &str) {
        self.rules([format!("-{}", denied(right)).as_str()]).await;
    }

    pub(crate) async fn pool(&self) -> Result<LockPool, LockError> {
        self.pool_that_polls_every(Duration::from_millis(50)).await
    }

    pub(crate) async fn pool_that_polls_every(
        &self,
        interval: Duration,
    ) -> Result<LockPool, LockError> {
        let config = self.served.config(self.user);
        let config = config.local_handoff(0, Duration::ZERO);
        LockPool::connect(config.poll_interval(interval)).await
    }

    /// What the user was refused, each once, from the server's `ACL LOG`.
    pub(crate) async fn refused(&self) -> Vec<String> {
        let mut refused = Vec::new();
        for server in self.servers() {
            let entries: Vec<redis::Value> = server.ask(&["ACL", "LOG"]).await;
            refused.extend(entries.into_iter().map(object));
        }
        refused.sort();
        refused.dedup();
        refused
    }

    /// Waits until somebody waits for the lock.
    pub(crate) async fn queued(&self, key: &str) {
        let places = ["w", "h"].map(|it| format!("lock:@{it}:{{lock:{key}}}"));
        until("it waits", CAP, async || {
            self.keys().await.iter().any(|it| places.contains(it))
        })
        .await;
    }

    /// Until when the waiter counts as alive; `None`: there is no waiter.
    pub(crate) async fn beat(&self, key: &str) -> Option<String> {
        let alive = format!("lock:@a:{{lock:{key}}}");
        let first = ["ZRANGE", &alive, "0", "0", "WITHSCORES"];
        self.server().ask::<Vec<String>>(&first).await.pop()
    }

    /// How many connections the user has.
    pub(crate) async fn clients(&self) -> usize {
        let list: String = self.server().ask(&["CLIENT", "LIST"]).await;
        list.lines()
            .filter(|it| it.contains(" user=dlock "))
            .count()
    }
}

/// What an entry of an `ACL LOG` is about.
fn object(entry: redis::Value) -> String {
    let fields: Vec<redis::Value> = redis::from_redis_value(entry).unwrap();
    let text = |value: &redis::Value| redis::from_redis_value::<String>(value.clone()).ok();
    let mut names = fields.iter().map(text);
    let at = names.position(|it| it.as_deref() == Some("object"));
    text(&fields[at.unwrap() + 1]).unwrap()
}

/// What is taken away and named in `ACL LOG` for a right such as `+get`. Redis 6 allows single
/// subcommands, but denies only whole commands.
pub(crate) fn denied(right: &str) -> &str {
    let name = right.trim_start_matches('+');
    match name.split_once('|') {
        Some((command, _)) if RedisServer::is_redis_6() => command,
        _ => name,
    }
}
