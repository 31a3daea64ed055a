//! Callers that are dropped while their command is batched with those of others.

use std::time::Duration;

use dlock_harness::resp::words;
use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{LockGuard, LockPool};
use tokio::task::JoinHandle;

use crate::world::{A_WHILE, SOON, patient};

const CALLERS: usize = 12;

/// Commands about more than one lock.
fn combined() -> Matcher {
    Matcher::when(|request| {
        let words = words(request);
        matches!(words[..], [b"EVALSHA", _, keys, b"lock:@fence", ..] if keys != b"4")
    })
}

struct Wire {
    server: RedisServer,
    proxy: Proxy,
    pool: LockPool,
}

impl Wire {
    async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.addr());
        let pool = LockPool::connect(patient(&proxy.url())).await.unwrap();
        let wire = Self {
            server,
            proxy,
            pool,
        };
        // After this the server knows all scripts, and the watchdog is connected.
        for task in wire.start() {
            drop(task.await.unwrap());
        }
        wire.held(0).await;
        wire
    }

    /// Starts all callers at once: the first two commands are sent by themselves, the others in a
    /// batch.
    fn start(&self) -> Vec<JoinHandle<LockGuard>> {
        let acquire = |it: usize| {
            let lock = self.pool.lock(format!("item:{it}")).wait(A_WHILE);
            let lock = lock.ttl(Duration::from_secs(30));
            tokio::spawn(async move { lock.acquire().await.unwrap() })
        };
        (0..CALLERS).map(acquire).collect()
    }

    async fn locks(&self) -> usize {
        let keys = self.server.keys().await;
        keys.iter()
            .filter(|key| key.starts_with("lock:item:"))
            .count()
    }

    /// Exactly this many locks are held, and no more come.
    async fn held(&self, number: usize) {
        until("the others are free", SOON, async || {
            self.locks().await == number
        })
        .await;
    }
}

async fn check(action: Action) {
    let wire = Wire::new().await;
    let batch = wire.proxy.on(combined(), action);
    let tasks = wire.start();
    batch.seen().await;
    let (mut gone, mut stay) = (Vec::new(), Vec::new());
    for (number, task) in tasks.into_iter().enumerate() {
        if number % 2 == 0 {
            &mut gone
        } else {
            &mut stay
        }
        .push(task);
    }
    for task in gone {
        task.abort();
        let _ = task.await;
    }
    wire.proxy.release_held();
    let mut guards = Vec::new();
    for task in stay {
        guards.push(task.await.unwrap());
    }
    wire.held(CALLERS / 2).await;
    for guard in &guards {
        guard.verify().await.unwrap();
    }
    drop(guards);
    wire.held(0).await;
}

#[tokio::test]
async fn who_goes_before_the_command_arrives_takes_nothing_from_its_neighbours() {
    check(Action::Hold).await;
}

#[tokio::test]
async fn who_goes_before_the_answer_arrives_takes_nothing_from_its_neighbours() {
    check(Action::HoldReply).await;
}
