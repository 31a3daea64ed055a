//! The shell blocks of the pages on kinds in `docs/guide`, run on a private server.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockGuard, LockPool, LockRequest, LostCause, Wait};
use dlock_tests::patient;

use crate::page::{block, first_block, run};

const CAP: Duration = Duration::from_secs(20);

/// A server, and the pools of two processes.
struct Lab {
    server: RedisServer,
    here: LockPool,
    there: LockPool,
}

impl Lab {
    async fn new() -> Self {
        let server = RedisServer::start();
        let pool = async || LockPool::connect(patient(server.url())).await.unwrap();
        let (here, there) = (pool().await, pool().await);
        Self {
            server,
            here,
            there,
        }
    }

    /// Starts a waiter, and returns when this many wait for the key.
    async fn wait(&self, request: LockRequest, key: &str, waiting: u64) {
        let request = request.wait(Wait::Forever);
        tokio::spawn(async move { request.acquire().await });
        let queue = format!("lock:@w:{{lock:{key}}}");
        until("it waits", CAP, async || {
            self.server.ask::<u64>(&["ZCARD", &queue]).await == waiting
        })
        .await;
    }

    async fn shows(&self, page: &'static str) {
        run(&first_block(page), &self.server).await;
    }
}

async fn held(request: LockRequest) -> LockGuard {
    request.acquire().await.unwrap()
}

#[tokio::test]
async fn an_exclusive_lock() {
    let lab = Lab::new().await;
    let _held = held(lab.here.lock("item:7")).await;
    lab.wait(lab.there.lock("item:7"), "item:7", 1).await;
    lab.shows(include_str!("../../docs/guide/exclusive.md"))
        .await;
}

#[tokio::test]
async fn a_fair_one() {
    let lab = Lab::new().await;
    let _held = held(lab.here.lock("ticket:7")).await;
    for waiting in 1..=3 {
        let request = lab.there.lock("ticket:7").fair();
        lab.wait(request, "ticket:7", waiting).await;
    }
    lab.shows(include_str!("../../docs/guide/fair.md")).await;
}

#[tokio::test]
async fn an_owners() {
    let lab = Lab::new().await;
    let owned = |pool: &LockPool, owner| pool.lock("order:7").reentrant().owner(owner);
    let _one = held(owned(&lab.here, "checkout:w1")).await;
    let _other = held(owned(&lab.there, "checkout:w1")).await;
    lab.wait(owned(&lab.there, "checkout:w2"), "order:7", 1)
        .await;
    lab.shows(include_str!("../../docs/guide/reentrant.md"))
        .await;
}

#[tokio::test]
async fn two_readers_and_a_writer_who_waits() {
    let lab = Lab::new().await;
    let _one = held(lab.here.lock("catalogue:1").read()).await;
    let _other = held(lab.there.lock("catalogue:1").read()).await;
    let writer = lab.there.lock("catalogue:1").write();
    lab.wait(writer, "catalogue:1", 1).await;
    lab.shows(include_str!("../../docs/guide/read-write.md"))
        .await;
}

#[tokio::test]
async fn permits() {
    let lab = Lab::new().await;
    let render = |pool: &LockPool, take| pool.lock("render").permits(5).take(take);
    let _two = held(render(&lab.here, 2).ttl(Duration::from_secs(20))).await;
    let _one = held(render(&lab.there, 1).ttl(Duration::from_secs(60))).await;
    lab.wait(render(&lab.there, 4), "render", 1).await;
    lab.shows(include_str!("../../docs/guide/permits.md")).await;
}

#[tokio::test]
async fn two_keys() {
    let lab = Lab::new().await;
    let _both = held(lab.here.lock_all(["account:9", "account:7"])).await;
    lab.shows(include_str!("../../docs/guide/several-keys.md"))
        .await;
}

const MANY: &str = "Locks with many holders";

/// `ZREM` of one reader: that reader learns of it at its next renewal, the other holder keeps its
/// lock.
#[tokio::test]
async fn looking_at_readers_and_taking_one_out() {
    let lab = Lab::new().await;
    let reader = |pool: &LockPool| pool.lock("catalogue:1").read();
    let short = reader(&lab.here).ttl(Duration::from_secs(30));
    let short = held(short.renew_every(Duration::from_secs(1))).await;
    let long = held(reader(&lab.there).ttl(Duration::from_secs(90))).await;
    let writer = lab.there.lock("catalogue:1").write();
    lab.wait(writer, "catalogue:1", 1).await;
    run(&block(MANY, 0), &lab.server).await;
    run(&block(MANY, 1), &lab.server).await;
    assert_eq!(short.lost().await, LostCause::Gone);
    long.verify().await.unwrap();
}

/// `DEL`: all readers lose the lock, and the waiter is granted it.
#[tokio::test]
async fn deleting_the_set_lets_in_who_waits() {
    let lab = Lab::new().await;
    let reader = lab.here.lock("catalogue:1").read();
    let reader = held(reader.renew_every(Duration::from_millis(100))).await;
    let writer = lab.there.lock("catalogue:1").write().wait(Wait::Forever);
    let writer = tokio::spawn(async move { writer.acquire().await });
    until("it waits", CAP, async || {
        lab.server.pttl("lock:@w:{lock:catalogue:1}").await > 0
    })
    .await;
    lab.server.cmd(&["DEL", "lock:catalogue:1"]).await;
    let writer = writer.await.unwrap().unwrap();
    assert_eq!(reader.lost().await, LostCause::Gone);
    writer.verify().await.unwrap();
}
