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

const CAP: Duration = Duration::from_secs(20);
const LONG: Duration = Duration::from_secs(60);

/// A server, and the pools of two processes and of an administrator.
struct Lab {
    server: RedisServer,
    here: LockPool,
    there: LockPool,
    admin: Admin,
}

impl Lab {
    async fn new() -> Self {
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
}

async fn pool(config: Config) -> LockPool {
    LockPool::connect(config).await.unwrap()
}

async fn held(request: LockRequest) -> LockGuard {
    request.ttl(LONG).acquire().await.unwrap()
}

/// Starts a waiter, and returns when this many wait for the key.
async fn wait(
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
