//! Programs that use the plain convention, at a lock with a queue that they do not know, and at a
//! key that `min_hold` keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use dlock_harness::wait::pause;
use dlock_harness::{Monitor, RedisServer, until};
use dlock_runtime::{Holder, LockPool, Wait};

use crate::connect;
use crate::interop::{Foreign, KEY, TOKENS};
use crate::record::{Line, lines};

const CAP: Duration = Duration::from_secs(60);

/// The server's time, in µs, of the first matching command in the record.
async fn time_of(monitor: &Monitor, fits: impl Fn(&Line) -> bool) -> u64 {
    let all = lines(monitor).await;
    let line = all.iter().find(|line| fits(line));
    line.unwrap_or_else(|| panic!("{all:#?}")).at
}

/// How long our waiter takes to find a lock that a foreign program released, which notifies nobody.
async fn found_after(server: &RedisServer, pool: &LockPool) -> Duration {
    let mut foreign = Foreign::new(server, TOKENS[0]).await;
    assert!(foreign.try_lock(Duration::from_secs(600)).await);
    let waiter = pool.lock("key").wait(Wait::Forever).acquire();
    let waiter = tokio::spawn(waiter);
    until("it is in the queue", CAP, async || {
        server.pttl("lock:@w:{lock:key}").await > 0
    })
    .await;
    let monitor = server.monitor();
    assert!(foreign.unlock().await);
    let guard = waiter.await.unwrap().unwrap();
    let freed = |line: &Line| !line.by_client && line.words[0].eq_ignore_ascii_case("del");
    let taken =
        |line: &Line| !line.by_client && line.words.starts_with(&["SET".into(), KEY.into()]);
    let (freed, taken) = (
        time_of(&monitor, freed).await,
        time_of(&monitor, taken).await,
    );
    guard.release().await.unwrap();
    Duration::from_micros(taken - freed)
}

#[tokio::test]
async fn a_foreign_release_is_found_by_the_next_poll() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let mut took = Vec::new();
    for _ in 0..3 {
        took.push(found_after(&server, &pool).await);
    }
    println!("{took:?}");
    took.sort();
    // One second and its jitter; on a busy machine, only the quickest times count.
    assert!(took[1] <= Duration::from_millis(1500), "{took:?}");
    assert!(took[2] <= Duration::from_secs(4), "{took:?}");
}

/// A critical section: every task that believes it holds the lock enters it.
#[derive(Default)]
struct Room {
    taken: AtomicBool,
    visits: AtomicUsize,
}

impl Room {
    async fn visit(&self) {
        assert!(!self.taken.swap(true, Ordering::SeqCst), "two at once");
        self.visits.fetch_add(1, Ordering::SeqCst);
        tokio::task::yield_now().await;
        self.taken.store(false, Ordering::SeqCst);
    }
}

/// Both get turns, never at the same time: queued waiters are granted the lock, foreign programs
/// take it when nobody waits.
#[tokio::test]
async fn queued_waiters_and_foreign_programs_exclude_each_other() {
    const TASKS: usize = 10;
    const TURNS: usize = 20;
    let server = RedisServer::start();
    let pools = [connect(server.url()).await, connect(server.url()).await];
    let (room, done) = (Arc::new(Room::default()), Arc::new(AtomicBool::new(false)));

    let mut foreign = Foreign::new(&server, TOKENS[2]).await;
    let (of_foreign, is_done) = (room.clone(), done.clone());
    let foreign = tokio::spawn(async move {
        let mut visits = 0;
        while !is_done.load(Ordering::SeqCst) {
            if foreign.try_lock(Duration::from_secs(60)).await {
                of_foreign.visit().await;
                visits += 1;
                assert!(foreign.unlock().await);
                pause(Duration::from_millis(1)).await;
            }
        }
        visits
    });
    let ours = pools.iter().flat_map(|pool| {
        (0..TASKS).map(|_| {
            let (pool, room) = (pool.clone(), room.clone());
            tokio::spawn(async move {
                for _ in 0..TURNS {
                    let guard = pool.lock("key").wait(Wait::Forever).acquire();
                    let guard = guard.await.unwrap();
                    room.visit().await;
                    guard.release().await.unwrap();
                }
            })
        })
    });
    for task in ours.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    done.store(true, Ordering::SeqCst);
    let visits = foreign.await.unwrap();
    println!("{visits} foreign visits");
    assert_eq!(
        room.visits.load(Ordering::SeqCst),
        2 * TASKS * TURNS + visits
    );
}

/// While a waiter is queued, the release grants it the lock in one step: `SET NX` never finds the
/// key free in between.
#[tokio::test]
async fn a_foreign_program_does_not_come_between_a_release_and_its_grant() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let held = pool.lock("key").acquire().await.unwrap();
    let waiter = pool.lock("key").wait(Wait::Forever).acquire();
    let waiter = tokio::spawn(waiter);
    until("it is in the queue", CAP, async || {
        server.pttl("lock:@w:{lock:key}").await > 0
    })
    .await;
    let mut foreign = Foreign::new(&server, TOKENS[1]).await;
    // Sent before the waiter can have received its grant.
    let (released, taken) = tokio::join!(held.release(), async {
        tokio::task::yield_now().await;
        foreign.try_lock(Duration::from_secs(60)).await
    });
    released.unwrap();
    assert!(!taken);
    let guard = waiter.await.unwrap().unwrap();
    assert!(!foreign.try_lock(Duration::from_secs(60)).await);
    assert!(!foreign.unlock().await);
    guard.verify().await.unwrap();
    guard.release().await.unwrap();
    assert!(foreign.try_lock(Duration::from_secs(60)).await);
}

/// The body was quick: until `min_hold` is over its key stays as a retired value, which excludes
/// everyone.
#[tokio::test]
async fn a_kept_key_is_a_held_lock_to_foreign_programs() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    let monitor = server.monitor();
    let keep = Duration::from_secs(3);
    let request = pool.lock("key").min_hold(keep);
    request.run(async |_| ()).await.unwrap();

    let value: String = server.ask(&["GET", KEY]).await;
    let fields: Vec<&str> = value.split('|').collect();
    assert_eq!(
        (fields.len(), fields[0], fields[1]),
        (12, "1", "x"),
        "{value}"
    );
    assert!(fields[2].starts_with('-'), "it answers to no token");
    let left = server.pttl(KEY).await;
    assert!((1..=3000).contains(&left), "{left} ms");
    match pool.holder("key").await.unwrap() {
        Some(Holder::Process(it)) => assert_eq!(it.pid(), std::process::id()),
        other => panic!("{other:?}"),
    }

    for token in TOKENS {
        let mut foreign = Foreign::new(&server, token).await;
        assert!(!foreign.try_lock(Duration::from_secs(60)).await);
        assert!(!foreign.extend().await && !foreign.unlock().await);
    }
    let kept: String = server.ask(&["GET", KEY]).await;
    assert_eq!(kept, value);
    let mut foreign = Foreign::new(&server, TOKENS[0]).await;
    until("a foreign program takes it", CAP, async || {
        foreign.try_lock(Duration::from_secs(60)).await
    })
    .await;
    // Not before `min_hold` was over, by the server's clock: `SET NX` does nothing while the key
    // exists.
    let held = value.replacen("1|x|-", "1|x|", 1);
    let said = lines(&monitor).await;
    let granted = said.iter().find(|it| it.sets(KEY) && it.words[2] == held);
    let tried = said.iter().rfind(|it| it.by_client && it.sets(KEY));
    let kept = tried.unwrap().at - granted.unwrap().at;
    assert!(kept >= 2_990_000, "for {kept} µs");
}
