//! Connections that break at each command, commands that come late, and futures that are dropped at
//! every poll: nothing is left, and no lock is taken from who holds it.
//!
//! The lease is 60 s, so whatever is gone within seconds was cleaned up.

use std::time::Duration;

use dlock_harness::resp::words;
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{Config, LockError, LockPool, Wait};
use futures_util::future::{Either, select};
use std::pin::pin;

use crate::{CAP, LONG, connect, plain, wait_for};

/// What a cut leaves is gone within this.
const SOON: Duration = Duration::from_secs(10);

/// How long a command may take: long enough on a busy machine.
const COMMAND: Duration = Duration::from_secs(2);

struct Lab {
    server: RedisServer,
    wire: Proxy,
}

impl Lab {
    fn new() -> Self {
        let server = RedisServer::start();
        let wire = Proxy::start(server.addr());
        Self { server, wire }
    }

    fn config(&self) -> Config {
        plain(self.wire.url()).command_timeout(COMMAND)
    }

    /// A pool that has all its connections.
    async fn pool(&self) -> LockPool {
        let pool = connect(self.config()).await;
        let warm = pool.lock("warm").acquire().await.unwrap();
        warm.release().await.unwrap();
        pool
    }

    async fn free(&self) {
        until("nothing is left", SOON, async || {
            self.server.keys().await == ["lock:@fence"]
        })
        .await;
    }
}

/// The command of an acquire, or of another transaction's end, that names the lock.
fn command(name: &'static str, key: &'static str) -> Matcher {
    Matcher::when(move |request| {
        let words = words(request);
        let text = |at: usize| {
            words
                .get(at)
                .map(|it| String::from_utf8_lossy(it).to_uppercase())
        };
        text(0).as_deref() == Some(name)
            && (key.is_empty() || text(1).as_deref() == Some(&*key.to_uppercase()))
    })
}

const CUTS: [Action; 7] = [
    Action::CutBefore,
    Action::CutInside(20),
    Action::CutInside(100_000),
    Action::CutAfter,
    Action::CutReply(0),
    Action::CutReply(3),
    Action::CutReply(100_000),
];

#[tokio::test]
async fn nothing_stays_of_an_acquire_whose_connection_breaks() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    for cut in CUTS {
        for (name, key) in [("SET", "lock:k"), ("EXEC", ""), ("MULTI", "")] {
            let _cutting = lab.wire.on(command(name, key), cut);
            match pool.lock("k").ttl(LONG).wait(Wait::Once).acquire().await {
                Ok(guard) => drop(guard), // the whole reply was let through
                Err(LockError::Unavailable { .. }) => {}
                other => panic!("{cut:?} at {name}: {other:?}"),
            }
            lab.wire.clear_triggers();
            lab.free().await;
            let cutting = lab.wire.on(command(name, key), cut);
            let guard = pool.lock("k").ttl(LONG).wait(CAP).acquire().await;
            let guard = guard.unwrap_or_else(|error| panic!("{cut:?} at {name}: {error}"));
            cutting.seen().await;
            lab.wire.clear_triggers();
            tokio::time::sleep(Duration::from_millis(300)).await; // a clean-up has run
            guard.verify().await.unwrap();
            drop(guard);
            lab.free().await;
        }
    }
}

#[tokio::test]
async fn a_release_whose_connection_breaks_is_finished_in_the_background() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    for cut in CUTS {
        for (name, key) in [
            ("WATCH", "lock:k"),
            ("MULTI", ""),
            ("DEL", "lock:k"),
            ("EXEC", ""),
        ] {
            let guard = pool.lock("k").ttl(LONG).acquire().await.unwrap();
            let cutting = lab.wire.on(command(name, key), cut);
            match guard.release().await {
                Ok(_) | Err(LockError::Unavailable { .. }) => {}
                other => panic!("{cut:?} at {name}: {other:?}"),
            }
            cutting.seen().await;
            lab.wire.clear_triggers();
            lab.free().await;
        }
    }
}

/// Only an acquire that is executed in time creates anything: it carries the time at which its key
/// ends. Until then the clean-up looks again each second.
#[tokio::test]
async fn an_acquire_that_comes_late_is_found_and_undone() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    // Behind its clean-up, but before its end; its runtime has ended, so no `cancel` follows it on
    // its connection.
    let held = lab.wire.on(command("MULTI", ""), Action::Hold);
    let request = pool.lock("k").ttl(LONG).wait(Wait::Once);
    let elsewhere = std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().unwrap();
        runtime.block_on(async {
            let late = tokio::time::timeout(COMMAND / 2, request.acquire()).await;
            assert!(late.is_err(), "{late:?}");
        });
    });
    held.seen().await;
    tokio::task::spawn_blocking(|| elsewhere.join().unwrap())
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await; // the first clean-ups found nothing
    lab.wire.clear_triggers();
    lab.wire.release_held();
    until("it was executed", CAP, async || {
        lab.server.keys().await.contains(&"lock:k".to_owned())
    })
    .await;
    lab.free().await;
    // The same, with a `cancel` right behind it.
    let before = lab.server.commandstats("exec").await;
    let held = lab.wire.on(command("MULTI", ""), Action::Hold);
    let late = pool.lock("k").ttl(LONG).wait(Wait::Once).acquire().await;
    assert!(
        matches!(late, Err(LockError::Unavailable { .. })),
        "{late:?}"
    );
    held.seen().await;
    tokio::time::sleep(Duration::from_secs(2)).await; // the first clean-ups found nothing
    lab.wire.clear_triggers();
    lab.wire.release_held();
    until("it was executed", CAP, async || {
        lab.server.commandstats("exec").await > before
    })
    .await;
    lab.free().await;
    // After its end.
    let held = lab.wire.on(command("MULTI", ""), Action::Hold);
    let request = pool.lock("k").ttl(Duration::from_millis(500));
    let late = request.wait(Wait::Once).acquire().await;
    assert!(
        matches!(late, Err(LockError::Unavailable { .. })),
        "{late:?}"
    );
    held.seen().await;
    tokio::time::sleep(Duration::from_millis(800)).await;
    let before = lab.server.commandstats("exec").await;
    let monitor = lab.server.monitor();
    lab.wire.clear_triggers();
    lab.wire.release_held();
    until("it was executed", CAP, async || {
        lab.server.commandstats("exec").await > before
    })
    .await;
    assert!(
        monitor
            .settled()
            .await
            .iter()
            .any(|line| line.contains("PXAT"))
    );
    assert_eq!(lab.server.pttl("lock:k").await, -2);
}

/// A waiter whose queue entry, poll or grant is cut off gets the lock all the same.
#[tokio::test]
async fn a_waiter_survives_a_break_of_its_connection() {
    let lab = Lab::new();
    let (pool, other) = (lab.pool().await, connect(plain(lab.server.url())).await);
    for cut in [Action::CutBefore, Action::CutAfter] {
        for name in ["ZADD", "ZSCORE"] {
            let held = other.lock("k").ttl(LONG).acquire().await.unwrap();
            let cutting = lab.wire.on(command(name, ""), cut);
            let waiter = wait_for(pool.lock("k").ttl(LONG));
            cutting.seen().await;
            lab.wire.clear_triggers();
            held.release().await.unwrap();
            let next = tokio::time::timeout(CAP, waiter).await.unwrap();
            next.unwrap().unwrap().release().await.unwrap();
            lab.free().await;
        }
    }
}

/// Polls a future so often, then drops it; `None` if it ended before.
async fn dropped_after<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    let cut = std::future::poll_fn(|_| std::task::Poll::<()>::Pending);
    let counted = std::future::poll_fn(|cx| {
        if left == 0 {
            return std::task::Poll::Ready(None);
        }
        left -= 1;
        let polled = future.as_mut().poll(cx).map(Some);
        if left == 0 && polled.is_pending() {
            return std::task::Poll::Ready(None);
        }
        polled
    });
    match select(pin!(counted), pin!(cut)).await {
        Either::Left((ended, _)) => ended,
        Either::Right(_) => None,
    }
}

#[tokio::test]
async fn what_is_dropped_at_any_poll_leaves_nothing() {
    let server = RedisServer::start();
    let pool = connect(plain(server.url())).await;
    let body = async || {
        let request = pool
            .lock("k")
            .ttl(LONG)
            .renew_every(Duration::from_millis(20));
        let work = async |_: &dlock_runtime::LockGuard| {
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        request.run(work).await.unwrap();
    };
    let free = async || {
        until("nothing is left", SOON, async || {
            let keys = server.keys().await;
            keys.iter().all(|key| key == "lock:@fence")
        })
        .await;
    };
    for polls in 0.. {
        let ended = dropped_after(polls, body()).await;
        free().await;
        if ended.is_some() {
            break;
        }
    }
    for polls in 0..4 {
        let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
        let waiter = pool.lock("k").ttl(LONG).wait(LONG).acquire();
        assert!(dropped_after(polls, waiter).await.is_none());
        held.release().await.unwrap();
        free().await;
    }
}
