//! A private server with the user `eve`, who may read, listen and publish, and the pools that Eve
//! attacks.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockGuard, LockPool, LockRequest};
use dlock_tests::patient;
use tokio::task::JoinHandle;

use crate::eve::Eve;

pub(crate) const CAP: Duration = Duration::from_secs(20);

/// A lease longer than any test.
pub(crate) const LONG: Duration = Duration::from_secs(30);

pub(crate) const PASSWORD: &str = "sesame";

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) struct Lab {
    pub(crate) server: RedisServer,
}

impl Lab {
    /// The pools share a secret: their password.
    pub(crate) async fn with_a_secret() -> Self {
        Self::of(RedisServer::builder().password(PASSWORD).start()).await
    }

    /// The pools have no secret, so that a message proves nothing about its author.
    pub(crate) async fn without_a_secret() -> Self {
        Self::of(RedisServer::start()).await
    }

    async fn of(server: RedisServer) -> Self {
        let rights =
            "ACL SETUSER eve reset on >eve ~lock:* &* +@read +publish +psubscribe +info +time";
        server.cmd(&rights.split(' ').collect::<Vec<_>>()).await;
        Self { server }
    }

    pub(crate) async fn pool(&self) -> LockPool {
        LockPool::connect(patient(self.server.url())).await.unwrap()
    }

    pub(crate) async fn eve(&self, seed: u64) -> Eve {
        Eve::at(&format!("redis://eve:eve@{}", self.server.addr()), seed).await
    }

    /// The value at a key.
    pub(crate) async fn value(&self, key: &str) -> Option<String> {
        self.server.ask(&["GET", key]).await
    }

    /// The entries of a queue, in order.
    pub(crate) async fn places(&self, key: &str) -> Vec<String> {
        let queue = format!("lock:@w:{{lock:{key}}}");
        self.server.ask(&["ZRANGE", &queue, "0", "-1"]).await
    }

    /// The last epoch that was drawn.
    pub(crate) async fn counter(&self) -> u64 {
        let counter: Option<u64> = self.server.ask(&["GET", "lock:@fence"]).await;
        counter.unwrap_or(0)
    }

    /// How many commands of the pools the server has executed.
    pub(crate) async fn commands(&self) -> u64 {
        self.server.commandstats("evalsha").await + self.server.commandstats("eval").await
    }

    /// A task that waits for this request's lock and has its queue entry.
    pub(crate) async fn queued(&self, key: &str, request: LockRequest) -> JoinHandle<LockGuard> {
        let before = self.places(key).await.len();
        let waiter = tokio::spawn(async move { request.acquire().await.unwrap() });
        until("it stands in the queue", CAP, async || {
            self.places(key).await.len() == before + 1
        })
        .await;
        waiter
    }
}

/// The channel in an entry; empty if there is none.
pub(crate) fn channel(entry: &str) -> String {
    let address = entry.split('|').nth(3).unwrap_or_default();
    // A waiter without pushes has no address.
    let channel = address.split_once(';').map(|(_, channel)| channel);
    channel.unwrap_or_default().to_owned()
}
