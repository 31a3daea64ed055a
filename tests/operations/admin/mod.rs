//! `LockPool::admin`: what it shows of locks of every kind, what an eviction does, and how it goes
//! through many locks and strange ones.

mod evicted;
mod listed;
mod secret;
mod shown;
mod strange;
mod watched;

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{Admin, Config, LockGuard, LockPool, LockReport, LockRequest, Wait};
use dlock_tests::patient;
use tokio::task::JoinHandle;

use crate::page::{first_block, run};

const CAP: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);

/// A server, and the pools of two processes and of an administrator.
pub(crate) struct Lab {
    pub(crate) server: RedisServer,
    pub(crate) here: LockPool,
    pub(crate) there: LockPool,
    pub(crate) admin: Admin,
}

impl Lab {
    pub(crate) async fn new() -> Self {
        Self::with(|config| config).await
    }

    async fn with(settings: impl Fn(Config) -> Config) -> Self {
        Self::on(RedisServer::start(), settings).await
    }

    async fn on(server: RedisServer, settings: impl Fn(Config) -> Config) -> Self {
        let pool = async || pool(settings(patient(server.url()))).await;
        let (here, there, admin) = (pool().await, pool().await, pool().await.admin());
        Self {
            server,
            here,
            there,
            admin,
        }
    }

    /// The first shell block of a page prints what it says.
    pub(crate) async fn shows(&self, page: &'static str) {
        run(&first_block(page), &self.server).await;
    }
}

async fn pool(config: Config) -> LockPool {
    LockPool::connect(config).await.unwrap()
}

pub(crate) async fn held(request: LockRequest) -> LockGuard {
    request.ttl(LONG).acquire().await.unwrap()
}

/// Starts a waiter, and returns when this many wait for the key.
pub(crate) async fn wait(
    admin: &Admin,
    request: LockRequest,
    key: &str,
    waiting: usize,
) -> JoinHandle<LockGuard> {
    let request = request.wait(Wait::Forever).ttl(LONG);
    let waiter = tokio::spawn(async move { request.acquire().await.unwrap() });
    until("it waits", CAP, async || {
        show(admin, key).await.waiter_count() == waiting
    })
    .await;
    waiter
}

/// What happens soon, whatever the future is.
async fn soon<T>(future: impl IntoFuture<Output = T>) -> T {
    let future = tokio::time::timeout(CAP, future.into_future());
    future.await.expect("within the time of a test")
}

/// The lock that a waiter was granted.
pub(crate) async fn granted(waiter: JoinHandle<LockGuard>) -> LockGuard {
    soon(waiter).await.unwrap()
}

async fn show(admin: &Admin, key: &str) -> LockReport {
    admin.show(key).await.unwrap().expect("something is there")
}

async fn list(admin: &Admin, pattern: &str) -> Vec<LockReport> {
    let (mut all, mut listing) = (Vec::new(), admin.list(pattern));
    while let Some(page) = listing.next_page().await.unwrap() {
        assert!(page.len() <= 50);
        all.extend(page);
    }
    all.sort_by(|a: &LockReport, b| a.key().cmp(b.key()));
    all
}

fn keys(locks: &[LockReport]) -> Vec<&str> {
    locks.iter().map(LockReport::key).collect()
}
