//! The servers of a quorum, and pools of them.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockPool};
use dlock_tests::served::uptime;

use crate::{CAP, MAX_TTL};

/// Independent servers, and their proxies if a test cuts or delays connections.
pub(crate) struct Nodes(pub(crate) Vec<RedisServer>);

impl Nodes {
    pub(crate) fn start(number: usize) -> Self {
        Self((0..number).map(|_| RedisServer::start()).collect())
    }

    /// As `start`; returns once all of them vote.
    pub(crate) async fn voting(number: usize) -> Self {
        let nodes = Self::start(number);
        nodes.until_voting(MAX_TTL).await;
        nodes
    }

    pub(crate) async fn until_voting(&self, max_ttl: Duration) {
        for node in &self.0 {
            until("a node is up for long enough to vote", CAP, async || {
                uptime(node).await > max_ttl
            })
            .await;
        }
    }

    pub(crate) fn config(&self) -> Config {
        Config::redlock(self.0.iter().map(RedisServer::url))
            .max_ttl(MAX_TTL)
            .default_ttl(Duration::from_secs(1))
            .command_timeout(Duration::from_millis(300))
    }

    pub(crate) async fn pool(&self) -> LockPool {
        LockPool::connect(self.config()).await.unwrap()
    }

    /// How many nodes have something at this key.
    pub(crate) async fn with_key(&self, key: &str) -> usize {
        let mut found = 0;
        for node in &self.0 {
            found += node.ask::<usize>(&["EXISTS", &format!("lock:{key}")]).await;
        }
        found
    }

    /// How many locks the nodes have, together.
    pub(crate) async fn locks(&self) -> usize {
        locks_at(&self.0).await
    }

    pub(crate) async fn until_empty(&self, key: &str) {
        until("the key is at no node", CAP, async || {
            self.with_key(key).await == 0
        })
        .await;
    }
}

/// How many locks these nodes have, together.
pub(crate) async fn locks_at(nodes: &[RedisServer]) -> usize {
    let mut locks = 0;
    for node in nodes {
        let keys = node.keys().await;
        locks += keys.iter().filter(|key| !key.starts_with("lock:@")).count();
    }
    locks
}

/// How many wait for a hint of this node.
pub(crate) async fn wanting(node: &RedisServer, key: &str) -> usize {
    node.ask(&["ZCARD", &format!("lock:@h:{{lock:{key}}}")])
        .await
}
