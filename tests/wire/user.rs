//! A server with a user that has only the given rights.

use std::time::Duration;

use dlock_harness::{Authority, RedisServer, until};
use dlock_runtime::{LockError, LockPool};
use dlock_tests::patient;
use dlock_tests::served::with_tls;

const CAP: Duration = Duration::from_secs(20);

/// A server with the user `dlock`.
pub(crate) struct Lab {
    pub(crate) server: RedisServer,
    /// Of the server's certificate, if it has TLS.
    authority: Option<Authority>,
}

impl Lab {
    pub(crate) async fn new(rights: impl IntoIterator<Item = &str>) -> Self {
        Self::of(RedisServer::start(), rights).await
    }

    pub(crate) async fn with_tls(rights: impl IntoIterator<Item = &str>) -> Self {
        let (server, authority) = with_tls();
        Self::on(server, Some(authority), rights).await
    }

    /// The same on this server.
    pub(crate) async fn of(server: RedisServer, rights: impl IntoIterator<Item = &str>) -> Self {
        Self::on(server, None, rights).await
    }

    async fn on(
        server: RedisServer,
        authority: Option<Authority>,
        rights: impl IntoIterator<Item = &str>,
    ) -> Self {
        let lab = Self { server, authority };
        lab.user(["reset", "on", ">secret", "~lock:*", "resetchannels"])
            .await;
        if RedisServer::is_redis_6() {
            lab.user(["+hello"]).await; // from Redis 7 on it needs no right
        }
        lab.user(rights).await;
        lab
    }

    /// Adds the right to the server's native compare-and-delete, if it has one.
    pub(crate) async fn and_native(self) -> Self {
        for right in ["+delex", "+delifeq"] {
            let _ = self
                .server
                .try_cmd(&["ACL", "SETUSER", "dlock", right])
                .await; // fails if the server has no such command
        }
        self
    }

    pub(crate) async fn user(&self, rules: impl IntoIterator<Item = &str>) {
        let mut words = vec!["ACL", "SETUSER", "dlock"];
        words.extend(rules);
        self.server.cmd(&words).await;
    }

    /// Takes away a right such as `+get`.
    pub(crate) async fn deny(&self, right: &str) {
        self.user([format!("-{}", denied(right)).as_str()]).await;
    }

    pub(crate) async fn pool(&self) -> Result<LockPool, LockError> {
        self.pool_that_polls_every(Duration::from_millis(50)).await
    }

    pub(crate) async fn pool_that_polls_every(
        &self,
        interval: Duration,
    ) -> Result<LockPool, LockError> {
        let mut config = patient(format!("redis://dlock:secret@{}", self.server.addr()));
        if let (Some(authority), Some(addr)) = (&self.authority, self.server.tls_addr()) {
            config = patient(format!("rediss://dlock:secret@{addr}")).tls_ca(authority.file());
        }
        LockPool::connect(config.poll_interval(interval)).await
    }

    /// The commands that the user was refused, from the server's `ACL LOG`.
    pub(crate) async fn refused(&self) -> Vec<String> {
        let entries: Vec<redis::Value> = self.server.ask(&["ACL", "LOG"]).await;
        let object = |entry: &redis::Value| -> String {
            let fields: Vec<redis::Value> = redis::from_redis_value(entry.clone()).unwrap();
            let text = |at: usize| redis::from_redis_value::<String>(fields[at].clone()).unwrap();
            let at = (0..fields.len())
                .step_by(2)
                .find(|at| text(*at) == "object");
            text(at.unwrap() + 1)
        };
        entries.iter().map(object).collect()
    }

    pub(crate) async fn queued(&self, key: &str) {
        let set = format!("lock:@w:{{lock:{key}}}");
        until("it is in the queue", CAP, async || {
            self.server.pttl(&set).await > 0
        })
        .await;
    }

    /// Until when the waiter counts as alive; `None`: there is no waiter.
    pub(crate) async fn beat(&self, key: &str) -> Option<String> {
        let alive = format!("lock:@a:{{lock:{key}}}");
        let first = ["ZRANGE", &alive, "0", "0", "WITHSCORES"];
        self.server.ask::<Vec<String>>(&first).await.pop()
    }

    pub(crate) async fn free(&self, key: &str) {
        let key = format!("lock:{key}");
        until("the key is gone", CAP, async || {
            self.server.pttl(&key).await == -2
        })
        .await;
    }

    /// How many connections the user has.
    pub(crate) async fn clients(&self) -> usize {
        let list: String = self.server.ask(&["CLIENT", "LIST"]).await;
        list.lines()
            .filter(|it| it.contains(" user=dlock "))
            .count()
    }
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
