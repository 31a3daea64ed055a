//! A waiter whose connection breaks at each command, and futures that are dropped at every poll:
//! nothing is left, and no lock is taken from who holds it. `faults/unanswered` has the other
//! commands that are cut or come late.
//!
//! The lease is 60 s, so whatever is gone within seconds was cleaned up.

use std::time::Duration;

use dlock_harness::resp::words;
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{Config, LockPool};
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
