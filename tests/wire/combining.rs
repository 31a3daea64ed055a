//! Many locks at the same time cost a few commands; few locks cost as much as each alone.

use dlock_harness::RedisServer;
use dlock_runtime::{LockGuard, LockPool};
use dlock_tests::patient;
use futures_util::future::try_join_all;

use crate::connect;
use crate::record::{Line, lines};

/// What clients send to acquire this many locks at the same time, and to release them.
async fn sent(server: &RedisServer, pool: &LockPool, keys: &[String]) -> [Vec<Line>; 2] {
    // From then on the scripts are known, the single ones and the combined one.
    give_back(take(pool, &keys[..1]).await).await;
    give_back(take(pool, keys).await).await;
    let monitor = server.monitor();
    let guards = take(pool, keys).await;
    let acquires = lines(&monitor).await.len();
    give_back(guards).await;
    let mut lines = lines(&monitor).await;
    let mut releases = lines.split_off(acquires);
    for part in [&mut lines, &mut releases] {
        part.retain(|line| line.by_client && line.words[0] != "PING");
    }
    [lines, releases]
}

/// The number of keys that each of these commands names.
pub(crate) async fn commands(
    server: &RedisServer,
    pool: &LockPool,
    keys: &[String],
) -> [Vec<usize>; 2] {
    let named = |line: &Line| line.words[2].parse().unwrap();
    let sent = sent(server, pool, keys).await;
    sent.map(|lines| lines.iter().map(named).collect())
}

/// So many keys that begin so.
pub(crate) fn keys(begin: &str, number: usize) -> Vec<String> {
    (0..number).map(|it| format!("{begin}:{it}")).collect()
}

async fn take(pool: &LockPool, keys: &[String]) -> Vec<LockGuard> {
    let requests = keys.iter().map(|it| pool.lock(it).acquire());
    try_join_all(requests).await.unwrap()
}

async fn give_back(guards: Vec<LockGuard>) {
    let releases = guards.into_iter().map(LockGuard::release);
    try_join_all(releases).await.unwrap();
}

/// Two commands by themselves, then one with half of the items, then one with the rest.
#[tokio::test]
async fn many_at_once_are_four_commands() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let all = vec![4, 4, 1 + 2 * 16, 1 + 2 * 14];
    assert_eq!(
        commands(&server, &pool, &keys("key", 32)).await,
        [all.clone(), all]
    );
}

/// The server is never busy with one command for longer than 64 locks take.
#[tokio::test]
async fn a_command_has_no_more_than_64_locks() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let [acquires, releases] = commands(&server, &pool, &keys("key", 200)).await;
    for keys in [acquires, releases] {
        assert_eq!(keys[..4], [4, 4, 1 + 2 * 64, 1 + 2 * 64], "{keys:?}");
        let locks = |keys: &usize| (keys - 1) / 2;
        assert_eq!(keys.iter().map(locks).sum::<usize>(), 200, "{keys:?}");
    }
}

/// Each item adds only its keys and its value. Acquires may be in two runs, because time passes.
#[tokio::test]
async fn what_is_the_same_for_all_of_a_batch_is_said_once() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let [acquires, releases] = sent(&server, &pool, &keys("key", 32)).await;
    let besides = |lines: &[Line]| {
        let all = lines.last().unwrap().words.len();
        // EVALSHA, its hash, the number of keys, the counter; last, the fleet's secret
        all - 4 - (2 + 1) * 14 - 1
    };
    assert!([2 + 5, 2 + 2 * 5].contains(&besides(&acquires)));
    assert_eq!(besides(&releases), 2 + 2);
}

#[tokio::test]
async fn two_at_once_do_not_wait_for_each_other() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    assert_eq!(
        commands(&server, &pool, &keys("key", 2)).await,
        [[4, 4], [4, 4]]
    );
}

/// With a limit on commands in flight, which the client library enforces, nothing is combined.
#[tokio::test]
async fn with_a_limit_each_goes_by_itself() {
    let server = RedisServer::start();
    let config = patient(server.url()).max_in_flight(4);
    let pool = LockPool::connect(config).await.unwrap();
    assert_eq!(
        commands(&server, &pool, &keys("key", 8)).await,
        [[4; 8], [4; 8]]
    );
}
