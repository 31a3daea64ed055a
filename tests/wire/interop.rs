//! Programs that do not use dlock but keep the same convention, `SET key token NX PX` and
//! compare-and-delete: redis-py, redsync, node-redlock, rslock. They exclude our locks, and our
//! locks exclude theirs.

use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_runtime::{Holder, LockError, LockGuard, LockPool, Released, Wait};
use dlock_tests::patient;
use redis::aio::MultiplexedConnection;

use crate::connect;
use crate::record::Scripts;

pub(crate) const KEY: &str = "lock:key";

/// A foreign program with its own token.
pub(crate) struct Foreign {
    redis: MultiplexedConnection,
    token: Vec<u8>,
}

impl Foreign {
    pub(crate) async fn new(server: &RedisServer, token: &[u8]) -> Self {
        Self {
            redis: server.connect().await,
            token: token.to_vec(),
        }
    }

    pub(crate) async fn try_lock(&mut self, lease: Duration) -> bool {
        let lease: u64 = lease.as_millis().try_into().unwrap();
        let mut set = redis::cmd("SET");
        set.arg(KEY).arg(&self.token).arg("NX").arg("PX").arg(lease);
        let reply: Option<String> = set.query_async(&mut self.redis).await.unwrap();
        reply.is_some()
    }

    /// The script that all of them use.
    pub(crate) async fn unlock(&mut self) -> bool {
        const SCRIPT: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
        self.compare_and(SCRIPT).await
    }

    pub(crate) async fn extend(&mut self) -> bool {
        const SCRIPT: &str = "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('pexpire',KEYS[1],60000) else return 0 end";
        self.compare_and(SCRIPT).await
    }

    async fn compare_and(&mut self, script: &str) -> bool {
        let script = redis::Script::new(script);
        let mut call = script.key(KEY);
        call.arg(&self.token);
        let done: u8 = call.invoke_async(&mut self.redis).await.unwrap();
        done == 1
    }
}

/// Tokens as these libraries write them, and some that resemble ours.
pub(crate) const TOKENS: [&[u8]; 6] = [
    b"8f14e45fceea167a5a36dedd4bea2543", // redis-py, node-redlock
    b"x1Zr+5FSGAYPxVoDVF/V5Q==",         // redsync
    b"\x00\xff\x80\"|\n\x01\xfe binary \xc3", // rslock: any bytes
    b"1|not|ours",
    b"7",
    b"",
];

/// The time left that the error reports.
fn left_of_foreign(error: LockError) -> Duration {
    match error {
        LockError::Busy {
            holder: Holder::Foreign,
            left,
            ..
        } => left,
        other => panic!("{other:?}"),
    }
}

/// With scripts and without.
async fn both_ways(server: &RedisServer) -> [LockPool; 2] {
    let plain = LockPool::connect(patient(server.url()).without_scripts());
    [connect(server.url()).await, plain.await.unwrap()]
}

#[tokio::test]
async fn a_foreign_holder_excludes_us_whatever_its_token() {
    let server = RedisServer::start();
    for pool in both_ways(&server).await {
        for token in TOKENS {
            let mut foreign = Foreign::new(&server, token).await;
            assert!(foreign.try_lock(Duration::from_secs(30)).await);
            assert!(pool.lock("key").try_acquire().await.unwrap().is_none());
            for wait in [Wait::Once, Wait::For(Duration::from_millis(250))] {
                let asked = pool.lock("key").wait(wait).acquire().await;
                let left = left_of_foreign(asked.unwrap_err());
                assert!(left <= Duration::from_secs(30) && left > Duration::from_secs(20));
            }
            assert_eq!(pool.holder("key").await.unwrap(), Some(Holder::Foreign));
            // Our attempts changed nothing: the lock is still the foreign program's, for as long as
            // before.
            assert!(server.pttl(KEY).await <= 30_000);
            assert!(foreign.unlock().await, "{token:?} lost its lock");
        }
    }
}

#[tokio::test]
async fn we_get_the_lock_when_a_foreign_lease_ends() {
    let server = RedisServer::start();
    for pool in both_ways(&server).await {
        let mut foreign = Foreign::new(&server, TOKENS[1]).await;
        assert!(foreign.try_lock(Duration::from_millis(400)).await);
        let guard = pool.lock("key").wait(Duration::from_secs(20)).acquire();
        let guard = guard.await.unwrap();
        assert!(!foreign.unlock().await, "their lease was over");
        guard.verify().await.unwrap();
        guard.release().await.unwrap();
    }
}

async fn check_they_can_do_nothing(server: &RedisServer, pool: &LockPool) {
    let guard = pool.lock("key").acquire().await.unwrap();
    for token in TOKENS {
        let mut foreign = Foreign::new(server, token).await;
        assert!(!foreign.try_lock(Duration::from_secs(60)).await);
        assert!(!foreign.extend().await);
        assert!(!foreign.unlock().await);
    }
    let kind: String = server.ask(&["TYPE", KEY]).await;
    assert_eq!(kind, "string");
    let left = server.pttl(KEY).await;
    assert!((20_000..=30_000).contains(&left), "{left} ms are left");
    guard.verify().await.unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Freed);
}

#[tokio::test]
async fn we_exclude_foreign_programs_which_can_neither_free_nor_extend_ours() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    check_they_can_do_nothing(&server, &pool).await;
    // The foreign program gets the lock as soon as it is free.
    let mut foreign = Foreign::new(&server, TOKENS[0]).await;
    assert!(foreign.try_lock(Duration::from_secs(60)).await);
    assert!(foreign.unlock().await);
}

/// The fencing token rises although a holder without one came in between.
#[tokio::test]
async fn our_next_fence_is_higher_after_a_foreign_holder() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let guard = pool.lock("key").acquire().await.unwrap();
    let before = guard.fence();
    guard.release().await.unwrap();
    let mut foreign = Foreign::new(&server, TOKENS[0]).await;
    assert!(foreign.try_lock(Duration::from_secs(60)).await);
    assert!(foreign.unlock().await);
    assert!(pool.lock("key").acquire().await.unwrap().fence() > before);
}

/// A lock of ours that was deleted and then taken by a foreign program.
async fn taken_over(server: &RedisServer, pool: &LockPool) -> (LockGuard, Foreign) {
    let ours = pool.lock("key").acquire().await.unwrap();
    server.cmd(&["DEL", KEY]).await;
    let mut foreign = Foreign::new(server, TOKENS[0]).await;
    assert!(foreign.try_lock(Duration::from_secs(30)).await);
    (ours, foreign)
}

#[tokio::test]
async fn a_release_that_comes_too_late_leaves_a_foreign_holder_alone() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let (ours, mut foreign) = taken_over(&server, &pool).await;
    assert_eq!(ours.release().await.unwrap(), Released::NotHeld);
    assert!(foreign.unlock().await);
}

#[tokio::test]
async fn a_drop_that_comes_too_late_leaves_a_foreign_holder_alone() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let scripts = Scripts::learn(&server, &pool).await;
    let (ours, mut foreign) = taken_over(&server, &pool).await;
    let monitor = server.monitor();
    drop(ours);
    monitor
        .wait_for(&scripts.cancel, Duration::from_secs(10))
        .await;
    assert!(foreign.unlock().await);
}

#[tokio::test]
async fn an_extension_that_comes_too_late_leaves_a_foreign_holder_alone() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let (ours, mut foreign) = taken_over(&server, &pool).await;
    let late = ours.extend(Duration::from_secs(90)).await;
    assert!(late.unwrap_err().is_lost());
    assert!(server.pttl(KEY).await <= 30_000);
    assert!(foreign.unlock().await);
}
