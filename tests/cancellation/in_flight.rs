//! Futures dropped while a command is certainly under way: a proxy holds the command or its reply
//! back.

use std::time::Duration;

use dlock_harness::{Action, Matcher, Monitor, Proxy, RedisServer, until};
use dlock_runtime::{LockPool, LockRequest};
use tokio::task::JoinHandle;

use crate::record;
use crate::world::{A_WHILE, SOON, patient};

/// A server behind a proxy. It knows all scripts, so each command is one request, and the watchdog
/// is connected.
struct Wire {
    server: RedisServer,
    proxy: Proxy,
    pool: LockPool,
    monitor: Monitor,
}

impl Wire {
    async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        let pool = LockPool::connect(patient(&proxy.url())).await.unwrap();
        let warm = || pool.lock("warm");
        let monitor = server.monitor();
        warm().acquire().await.unwrap().release().await.unwrap();
        let renewed = warm().renew_every(Duration::from_millis(20));
        let renewed = renewed.acquire().await.unwrap();
        until("a renewal", A_WHILE, async || {
            record::renewals(&monitor, "warm") > 0
        })
        .await;
        renewed.release().await.unwrap(); // the watchdog releases it if a renewal is under way
        drop(warm().acquire().await.unwrap());
        let wire = Self {
            server,
            proxy,
            pool,
            monitor,
        };
        wire.freed("warm").await;
        wire
    }

    /// The nth script call that names the lock.
    fn script(nth: u64) -> Matcher {
        Matcher::script().containing("lock:item").nth(nth)
    }

    fn request(&self) -> LockRequest {
        self.pool.lock("item").ttl(Duration::from_secs(30))
    }

    async fn is_there(&self, key: &str) -> bool {
        self.server.ask(&["EXISTS", &format!("lock:{key}")]).await
    }

    async fn freed(&self, key: &str) {
        until("the key is gone", SOON, async || !self.is_there(key).await).await;
    }

    /// The lock can be had, and nothing writes to it after it was freed.
    async fn is_sound(&self) {
        self.proxy.release_held();
        record::ends_with_its_lock(&self.monitor, &self.pool, "item").await;
        let again = self.request().wait(Duration::from_secs(10)).acquire().await;
        again.unwrap().release().await.unwrap();
        self.freed("item").await;
    }
}

/// Runs a future on a task of its own, which [`stop`] drops.
fn start(request: LockRequest) -> JoinHandle<()> {
    tokio::spawn(async move {
        request
            .run(async |_| std::future::pending::<()>().await)
            .await
            .unwrap();
    })
}

async fn stop(task: JoinHandle<()>) {
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
}

#[tokio::test]
async fn an_acquire_that_was_executed_is_undone_before_its_reply_arrives() {
    let wire = Wire::new().await;
    let acquire = wire.proxy.on(Wire::script(1), Action::HoldReply);
    let task = start(wire.request());
    acquire.seen().await;
    assert!(wire.is_there("item").await);
    stop(task).await;
    wire.freed("item").await;
    wire.is_sound().await;
}

#[tokio::test]
async fn an_acquire_that_is_executed_after_its_caller_has_gone_is_undone() {
    let wire = Wire::new().await;
    let acquire = wire.proxy.on(Wire::script(1), Action::Hold);
    let task = start(wire.request());
    acquire.seen().await;
    assert!(!wire.is_there("item").await);
    stop(task).await;
    wire.proxy.release_held();
    wire.monitor
        .wait_for("lua] \"SET\" \"lock:item\"", SOON)
        .await;
    wire.freed("item").await;
    wire.is_sound().await;
}

/// A body that ends at once, so that its future waits for the release.
fn start_and_end(request: LockRequest) -> JoinHandle<()> {
    tokio::spawn(async move { request.run(async |_| ()).await.unwrap() })
}

#[tokio::test]
async fn a_release_that_never_arrives_is_done_by_another_way() {
    let wire = Wire::new().await;
    let release = wire.proxy.on(Wire::script(2), Action::Hold);
    let task = start_and_end(wire.request());
    release.seen().await;
    assert!(wire.is_there("item").await);
    stop(task).await;
    wire.freed("item").await;
    wire.is_sound().await;
}

#[tokio::test]
async fn a_release_that_was_executed_frees_nobody_elses_lock_when_it_is_repeated() {
    let wire = Wire::new().await;
    let release = wire.proxy.on(Wire::script(2), Action::HoldReply);
    let task = start_and_end(wire.request());
    release.seen().await;
    assert!(!wire.is_there("item").await);
    let other = LockPool::connect(patient(&wire.server.url()))
        .await
        .unwrap();
    let next = other.lock("item").try_acquire().await.unwrap().unwrap();
    stop(task).await;
    wire.proxy.release_held();
    // The repeated release is the watchdog's `cancel`: one more script call that names the lock.
    until("the release is repeated", SOON, async || {
        release.count() >= 3
    })
    .await;
    wire.pool.ping().await.unwrap();
    next.verify().await.unwrap();
    next.release().await.unwrap();
}

#[tokio::test]
async fn a_renewal_that_is_executed_late_does_not_outlive_its_lock() {
    let wire = Wire::new().await;
    let renewal = wire.proxy.on(Wire::script(2), Action::Hold);
    let task = start(wire.request().renew_every(Duration::from_millis(50)));
    renewal.seen().await;
    assert!(wire.is_there("item").await);
    stop(task).await;
    wire.proxy.release_held();
    wire.freed("item").await;
    wire.is_sound().await;
}

#[tokio::test]
async fn a_connection_that_is_being_made_serves_the_next_caller() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = LockPool::connect(patient(&proxy.url()).lazy())
        .await
        .unwrap();
    let hello = proxy.on(Matcher::any(), Action::Hold);
    let task = start(pool.lock("item"));
    hello.seen().await;
    stop(task).await;
    proxy.release_held();
    let lock = pool.lock("item").acquire().await.unwrap();
    lock.release().await.unwrap();
    assert_eq!(proxy.accepted(), 1, "no caller's patience ends an attempt");
    drop(pool);
    until("the connection is closed", SOON, async || proxy.live() == 0).await;
}

#[tokio::test]
async fn a_connection_that_is_being_made_ends_with_its_pool() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = LockPool::connect(patient(&proxy.url()).lazy())
        .await
        .unwrap();
    let hello = proxy.on(Matcher::any(), Action::Hold);
    let task = start(pool.lock("item"));
    drop(pool);
    hello.seen().await;
    assert_eq!(proxy.live(), 1);
    stop(task).await;
    proxy.release_held();
    until("the connection is closed", SOON, async || proxy.live() == 0).await;
}
