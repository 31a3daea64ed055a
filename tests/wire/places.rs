//! The queue of a key on the server: its keys, its entries, its messages, and that none of them is
//! left behind.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, LockGuard, LockPool, Wait};
use dlock_tests::patient;
use tokio::task::JoinHandle;

use crate::connect;
use crate::record::{Call, Line, lines};

const CAP: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(30);
const COUNTER: &str = "lock:@fence";

/// A queue that nobody waits in ends by itself after so long.
const QUEUE_ENDS: Duration = Duration::from_secs(7);

/// The members of a sorted set with their scores.
async fn members(server: &RedisServer, key: &str) -> Vec<(String, f64)> {
    server.ask(&["ZRANGE", key, "0", "-1", "WITHSCORES"]).await
}

fn wait_for(pool: &LockPool, key: &'static str) -> JoinHandle<Result<LockGuard, LockError>> {
    let request = pool.lock(key).ttl(TTL).wait(Wait::Forever);
    tokio::spawn(request.acquire())
}

/// A held lock, and the one entry of a pool that waits for it: the same bytes in both sets.
async fn queued(
    server: &RedisServer,
    pool: &LockPool,
    key: &'static str,
    sets: [&str; 2],
) -> (String, JoinHandle<Result<LockGuard, LockError>>) {
    let waiter = wait_for(pool, key);
    until("it is in the queue", CAP, async || {
        server.keys().await.iter().any(|key| key == sets[1])
    })
    .await;
    let [waiting, alive] = [
        members(server, sets[0]).await,
        members(server, sets[1]).await,
    ];
    assert_eq!((waiting.len(), alive.len()), (1, 1));
    let (entry, arrival) = waiting[0].clone();
    assert_eq!(entry, alive[0].0);
    let now: (u64, u64) = server.ask(&["TIME"]).await;
    #[allow(clippy::cast_precision_loss, reason = "below 2^53 until 2255")]
    let now = (now.0 * 1_000_000 + now.1) as f64;
    // It came a moment ago; its heartbeat is valid for 3.5 s from then.
    assert!((now - 20e6..=now).contains(&arrival), "{arrival} at {now}");
    let alive_until = alive[0].1;
    assert!((now - 20e6..=now + 3.5e6).contains(&alive_until));
    for set in sets {
        let left = server.pttl(set).await;
        assert!((1..=7000).contains(&left), "{set}: {left} ms");
    }
    (entry, waiter)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().copied().map(str::to_owned).collect()
}

/// The first digits of the server's run id, and a channel.
fn is_address(name: &str) -> bool {
    let is_hex =
        |id: &str, digits| id.len() == digits && id.bytes().all(|it| it.is_ascii_hexdigit());
    let parts = name.split_once(";lock:@grant:");
    parts.is_some_and(|(run_id, id)| is_hex(run_id, 16) && is_hex(id, 16))
}

#[tokio::test]
async fn an_entry_names_its_channel_and_its_lease_and_is_what_is_granted() {
    let server = RedisServer::start();
    let (one, two) = (connect(server.url()).await, connect(server.url()).await);
    let held = one.lock("key").acquire().await.unwrap();
    let sets = ["lock:@w:{lock:key}", "lock:@a:{lock:key}"];
    let (entry, waiter) = queued(&server, &two, "key", sets).await;
    let fields: Vec<&str> = entry.split('|').collect();
    let ["1", "x", _, address, "30000", "0", "0", "", _, _, _, _] = fields[..] else {
        panic!("{entry}");
    };
    assert!(is_address(address), "{address}");
    let (run_id, channel) = address.split_once(';').unwrap();
    let info: String = server.ask(&["INFO", "server"]).await;
    assert!(info.contains(&format!("run_id:{run_id}")), "{info}");
    let heard: Vec<String> = server.ask(&["PUBSUB", "CHANNELS"]).await;
    assert!(heard.iter().any(|it| it == channel), "{heard:?}");
    let is_one = |it: &String| is_address(&format!("{run_id};{it}"));
    assert!(heard.iter().all(is_one), "{heard:?}");

    let monitor = server.monitor();
    held.release().await.unwrap();
    let guard = waiter.await.unwrap().unwrap();
    let said = lines(&monitor).await;
    let find = |words: &[&str]| -> &Line {
        let fits = |line: &&Line| !line.by_client && line.words.starts_with(&owned(words));
        said.iter().find(fits).unwrap()
    };
    // The release granted it the lock, as announced, for a claim of at most 3 s.
    let set = find(&["SET", "lock:key"]);
    assert_eq!(set.words, ["SET", "lock:key", &entry, "PX", "3000"]);
    let publish = &find(&["PUBLISH"]).words;
    assert_eq!(publish[1], channel);
    let message: Vec<&str> = publish[2].split("\\n").collect();
    let ["1|granted", key, of, epoch, time, lease, ""] = message[..] else {
        panic!("{message:?}");
    };
    assert_eq!((key, of, lease), ("lock:key", entry.as_str(), "3000"));
    assert_eq!(epoch.parse::<u64>().unwrap() * 1024, guard.fence().get());
    let time: u64 = time.parse().unwrap();
    assert!(time.abs_diff(set.at) < 1_000_000, "{time} at {}", set.at);
    let stands: String = server.ask(&["GET", "lock:key"]).await;
    assert_eq!(stands, entry);
    guard.release().await.unwrap();
    assert_eq!(server.keys().await, [COUNTER]);
}

/// The number of queue entries after each command that added or removed one, from the record.
fn places(said: &[Line]) -> Vec<usize> {
    let mut there: Vec<&str> = Vec::new();
    let mut counts = Vec::new();
    for line in said.iter().filter(|line| !line.by_client) {
        let words = &line.words;
        match words[0].as_str() {
            "ZADD" if words[1].starts_with("lock:@w:") => there.push(&words[4]),
            "ZREM" if words[1].starts_with("lock:@w:") => there.retain(|it| *it != words[2]),
            _ => continue,
        }
        counts.push(there.len());
    }
    counts
}

#[tokio::test]
async fn twenty_local_waiters_have_one_place() {
    let server = RedisServer::start();
    let config = patient(server.url()).local_handoff(0, Duration::ZERO);
    let pool = LockPool::connect(config).await.unwrap();
    let held = pool.lock("key").acquire().await.unwrap();
    let monitor = server.monitor();
    let waiters: Vec<_> = (0..20).map(|_| wait_for(&pool, "key")).collect();
    until("it is in the queue", CAP, async || {
        server.keys().await.len() == 4
    })
    .await;
    held.release().await.unwrap();
    let mut left = 20;
    for waiter in waiters {
        waiter.await.unwrap().unwrap().release().await.unwrap();
        left -= 1;
    }
    assert_eq!(left, 0);
    let said = lines(&monitor).await;
    let places = places(&said);
    assert!(places.iter().all(|&count| count <= 1), "{places:?}");
    // Each task had its own turn, and sent one acquire for it.
    let acquires = said.iter().filter(|it| Call::of(it) == Some(Call::Acquire));
    assert_eq!(acquires.count(), 20);
    assert_eq!(server.keys().await, [COUNTER]);
}

/// They are dropped, or their wait is over: long before the queue would end by itself.
#[tokio::test]
async fn who_stops_waiting_leaves_no_place() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let held = pool.lock("key").acquire().await.unwrap();
    for wait in [Wait::Forever, Wait::For(Duration::from_millis(200))] {
        let request = || pool.lock("key").ttl(TTL).wait(wait);
        let waiters: Vec<_> = (0..20).map(|_| tokio::spawn(request().acquire())).collect();
        until("it is in the queue", CAP, async || {
            server.keys().await.len() == 4
        })
        .await;
        for waiter in waiters {
            if wait == Wait::Forever {
                waiter.abort();
            } else {
                assert!(waiter.await.unwrap().unwrap_err().is_busy());
            }
        }
        until("the queue is gone", QUEUE_ENDS / 2, async || {
            server.keys().await == [COUNTER, "lock:key"]
        })
        .await;
    }
    assert!(held.is_held());
    held.release().await.unwrap();
    assert_eq!(server.keys().await, [COUNTER]);
}
