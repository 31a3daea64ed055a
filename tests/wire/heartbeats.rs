//! The heartbeats of many waiters of a process are sent in a few commands; nothing else changes for
//! the waiters.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockGuard, LockPool, Wait};
use dlock_tests::patient;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::connect;

const CAP: Duration = Duration::from_secs(30);
const WAITERS: usize = 300;
const TTL: Duration = Duration::from_secs(60);

type Waiter = JoinHandle<Result<LockGuard, LockError>>;

/// Readers behind a writer, each with its own entry.
async fn readers(server: &RedisServer, pool: &LockPool) -> Vec<Waiter> {
    let read = || pool.lock("key").read().wait(Wait::Forever).acquire();
    let readers = (0..WAITERS).map(|_| tokio::spawn(read())).collect();
    queued(server, WAITERS).await;
    readers
}

async fn queued(server: &RedisServer, waiters: usize) {
    until("they wait", CAP, async || {
        server.ask::<usize>(&["ZCARD", "lock:@w:{lock:key}"]).await == waiters
    })
    .await;
}

async fn scripts(server: &RedisServer) -> u64 {
    server.commandstats("evalsha").await + server.commandstats("eval").await
}

/// Waits until every waiter has sent another heartbeat.
async fn each_shows_life(server: &RedisServer) {
    let now: (u64, u64) = server.ask(&["TIME"]).await;
    let from_now = now.0 * 1_000_000 + now.1 + 3_500_000;
    let eldest = ["ZRANGE", "lock:@a:{lock:key}", "0", "0", "WITHSCORES"];
    until("each shows a sign of life", CAP, async || {
        let mut eldest: Vec<String> = server.ask(&eldest).await;
        let alive = eldest.pop().and_then(|it| it.parse::<u64>().ok());
        alive.is_some_and(|alive| alive > from_now)
    })
    .await;
}

/// At most 40 commands a second for the windows, and some by waiters that poll by themselves.
fn assert_few(sent: u64, begun: Instant) {
    let took = begun.elapsed();
    assert!(
        u128::from(sent) * 1000 < 60 * took.as_millis(),
        "{sent} in {took:?}"
    );
}

/// The arrival of the last waiter, an epoch.
async fn last_arrival(server: &RedisServer) -> String {
    let last = ["ZRANGE", "lock:@w:{lock:key}", "-1", "-1", "WITHSCORES"];
    let mut last: Vec<String> = server.ask(&last).await;
    last.pop().expect("somebody waits")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_waiters_are_a_handful_of_commands_a_second() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let holder = pool.lock("key").write().ttl(TTL).acquire().await.unwrap();
    let waiters = readers(&server, &pool).await;
    let arrival = last_arrival(&server).await;
    let (before, begun) = (scripts(&server).await, Instant::now());
    for _ in 0..2 {
        each_shows_life(&server).await;
    }
    assert_few(scripts(&server).await - before, begun);
    queued(&server, WAITERS).await;
    assert_eq!(last_arrival(&server).await, arrival, "a place was lost");
    holder.release().await.unwrap();
    for waiter in waiters {
        let guard = timeout(CAP, waiter).await.expect("granted");
        drop(guard.unwrap().unwrap());
    }
}

/// The holder's key is gone, and nothing notifies the waiters.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_ends_without_a_release_is_noticed() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let _holder = pool.lock("key").write().ttl(TTL).acquire().await.unwrap();
    let waiters = readers(&server, &pool).await;
    server.cmd(&["DEL", "lock:key"]).await;
    for waiter in waiters {
        let guard = timeout(CAP, waiter).await.expect("granted");
        drop(guard.unwrap().unwrap());
    }
}

#[tokio::test]
async fn waiters_of_many_locks_share_a_command() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    for lock in 0..WAITERS {
        let (key, ttl) = (format!("lock:{lock}"), "60000");
        server.cmd(&["SET", &key, "somebody", "PX", ttl]).await;
    }
    let wait = |lock| pool.lock(format!("{lock}")).wait(Wait::Forever).acquire();
    let waiters: Vec<_> = (0..WAITERS).map(|lock| tokio::spawn(wait(lock))).collect();
    until("they wait", CAP, async || {
        server.keys().await.len() == 3 * WAITERS + 1
    })
    .await;
    let beats = async || server.commandstats("zadd").await;
    let (all, before, begun) = (beats().await, scripts(&server).await, Instant::now());
    until("as many as they are", CAP, async || {
        beats().await >= all + WAITERS as u64
    })
    .await;
    assert_few(scripts(&server).await - before, begun);
    for waiter in waiters {
        waiter.abort();
    }
}

/// With a limit on commands in flight, which the client library enforces, nothing is combined.
#[tokio::test]
async fn with_a_limit_each_polls_by_itself() {
    let server = RedisServer::start();
    let config = patient(server.url()).max_in_flight(4);
    let pool = LockPool::connect(config).await.unwrap();
    let _holder = pool.lock("key").write().ttl(TTL).acquire().await.unwrap();
    let waiters = readers(&server, &pool).await;
    let before = server.commandstats("zmscore").await;
    let evals = scripts(&server).await;
    until("each has polled", CAP, async || {
        scripts(&server).await >= evals + 300
    })
    .await;
    assert_eq!(server.commandstats("zmscore").await, before);
    for waiter in waiters {
        waiter.abort();
    }
}
