//! A waiter whose connection breaks at each command, and futures that are dropped at every poll:
//! nothing is left, and no lock is taken from who holds it. `faults/unanswered` has the other
//! commands that are cut or come late.
//!
//! The lease is 60 s, so whatever is gone within seconds was cleaned up.

use std::time::Duration;

use dlock_harness::polls::{Cut, When, at_every_poll, dropped_at};
use dlock_harness::resp::words;
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{Config, LockGuard, LockPool};

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
            let keys = self.server.keys().await;
            keys.iter().all(|key| key == "lock:@fence") // none was drawn before the first command
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

#[tokio::test]
async fn what_is_dropped_at_any_poll_leaves_nothing() {
    let lab = Lab::new();
    let pool = connect(plain(lab.server.url())).await;
    at_every_poll(
        async |_| {
            let often = Duration::from_millis(20);
            let request = pool.lock("k").ttl(LONG).renew_every(often);
            let work = async |_: &LockGuard| tokio::time::sleep(Duration::from_millis(50)).await;
            request.run(work).await.unwrap();
        },
        async |_, _| lab.free().await,
    )
    .await;
    for when in [When::AtOnce, When::Woken] {
        for polls in 0..4 {
            let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
            let waiter = pool.lock("k").ttl(LONG).wait(LONG).acquire();
            assert!(dropped_at(Cut { polls, when }, waiter).await.is_none());
            held.release().await.unwrap();
            lab.free().await;
        }
    }
}
