//! The backends that each fact is tested on, and what must be back as it was after a drop.

use std::time::Duration;

use dlock_harness::{Monitor, RedisServer, until};
use dlock_runtime::{Config, LockPool};
use futures_util::FutureExt as _;
use redis::FromRedisValue;
use redis::aio::MultiplexedConnection;
use tokio::runtime::Handle;

/// Far less than any lease here: a key that is free by then did not expire.
pub(crate) const SOON: Duration = Duration::from_secs(3);

/// Longer than anything here may take; less than any lease.
pub(crate) const A_WHILE: Duration = Duration::from_secs(10);

/// A pool, and its server if it has one.
pub(crate) struct World {
    pub(crate) pool: LockPool,
    pub(crate) server: Option<RedisServer>,
    /// Whether locks are handed on inside the process; otherwise the server decides each turn.
    pub(crate) hands_on: bool,
    /// The tests' own connection, always the same, so that asking changes no count.
    asks: Option<MultiplexedConnection>,
}

impl World {
    pub(crate) async fn memory() -> Self {
        let pool = LockPool::connect(patient("memory://")).await.unwrap();
        Self {
            pool,
            server: None,
            hands_on: false,
            asks: None,
        }
    }

    pub(crate) async fn memory_that_hands_on() -> Self {
        let config = handing_on(patient("memory://"), 50); // memory answers at once
        Self {
            pool: LockPool::connect(config).await.unwrap(),
            hands_on: true,
            ..Self::memory().await
        }
    }

    /// A private Redis server; the pool and its watchdog are connected.
    pub(crate) async fn redis() -> Self {
        let server = RedisServer::start();
        let config = patient(&server.url());
        Self::over(server, config).await
    }

    pub(crate) async fn redis_that_hands_on() -> Self {
        let server = RedisServer::start();
        let config = handing_on(patient(&server.url()), 300);
        Self {
            hands_on: true,
            ..Self::over(server, config).await
        }
    }

    /// The same with the test's own settings, or over a proxy.
    pub(crate) async fn over(server: RedisServer, config: Config) -> Self {
        let pool = LockPool::connect(config).await.unwrap();
        let world = Self {
            pool,
            asks: Some(server.connect().await),
            server: Some(server),
            hands_on: false,
        };
        drop(world.pool.lock("warm").acquire().await.unwrap());
        world.freed("warm").await;
        world
    }

    /// For tests that know that there is a server.
    pub(crate) fn server(&self) -> &RedisServer {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn monitor(&self) -> Option<Monitor> {
        self.server.as_ref().map(RedisServer::monitor)
    }

    /// Whether the lock is free: on Redis, whether there is no such key.
    pub(crate) async fn is_free(&self, key: &str) -> bool {
        match self.ask::<bool>(&["EXISTS", &format!("lock:{key}")]).await {
            Some(exists) => !exists,
            None => self.pool.holder(key).await.unwrap().is_none(),
        }
    }

    /// The server's answer, if there is a server.
    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Option<T> {
        let mut connection = self.asks.clone()?;
        let (name, rest) = words.split_first()?;
        let answer = redis::cmd(name)
            .arg(rest)
            .query_async(&mut connection)
            .await;
        Some(answer.unwrap())
    }

    /// [`is_free`](Self::is_free) for a `Drop`: blocks the thread.
    pub(crate) fn is_free_now(&self, key: &str) -> bool {
        let Some(server) = &self.server else {
            let holder = self.pool.holder(key).now_or_never();
            let holder = holder.expect("memory:// answers at once");
            return holder.unwrap().is_none();
        };
        let client = redis::Client::open(server.url()).unwrap();
        let mut connection = client.get_connection().unwrap();
        let exists = redis::cmd("EXISTS")
            .arg(format!("lock:{key}"))
            .query::<bool>(&mut connection);
        !exists.unwrap()
    }

    /// Waits until the lock is free, which must be soon.
    pub(crate) async fn freed(&self, key: &str) {
        until(&format!("{key} is free"), SOON, async || {
            self.is_free(key).await
        })
        .await;
    }

    /// The tasks and connections that exist when nothing happens.
    pub(crate) async fn baseline(&self) -> Baseline {
        let (mut last, mut same) = (self.counts().await, 0);
        until("nothing happens", A_WHILE, async || {
            let now = self.counts().await;
            same = if now == last { same + 1 } else { 0 };
            last = now;
            same == 10
        })
        .await;
        Baseline(last)
    }

    /// Waits until exactly the tasks and connections of the baseline exist again.
    pub(crate) async fn is_back_at(&self, baseline: &Baseline) {
        let mut now = self.counts().await;
        let what = format!("tasks and connections are back at {:?}", baseline.0);
        until(&what, A_WHILE, async || {
            now = self.counts().await;
            now == baseline.0
        })
        .await;
    }

    async fn counts(&self) -> Counts {
        let clients = self.ask::<String>(&["CLIENT", "LIST"]).await;
        let connections = clients.map_or(0, |clients| clients.lines().count());
        let tasks = Handle::current().metrics().num_alive_tasks();
        Counts { tasks, connections }
    }
}

/// Polls a busy lock often, so that waits are short; leaves each turn to the server; and tolerates
/// a server that stalls with its machine.
pub(crate) fn patient(url: &str) -> Config {
    let config = Config::new(url)
        .poll_interval(Duration::from_millis(10))
        .local_handoff(0, Duration::ZERO);
    config.connect_timeout(A_WHILE).command_timeout(A_WHILE)
}

/// `millis`: in most cases long enough to serve a few waiters in one hand-off chain. Not longer: its
/// leader may live until then, and each cut waits for it.
fn handing_on(config: Config, millis: u64) -> Config {
    config.local_handoff(16, Duration::from_millis(millis))
}

/// See [`World::baseline`].
pub(crate) struct Baseline(Counts);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    tasks: usize,
    connections: usize,
}

/// A test for each fact and each world: `memory://`, Redis on one thread, and Redis with worker
/// threads, where a wake-up may come while the future is being polled or dropped; and `memory://`
/// and Redis once more with local hand-off.
macro_rules! everywhere {
    ($($fact:ident),* $(,)?) => {$(
        mod $fact {
            use crate::world::World;

            #[tokio::test]
            async fn on_memory() {
                super::$fact(&World::memory().await).await;
            }

            #[tokio::test]
            async fn on_redis() {
                super::$fact(&World::redis().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis_with_worker_threads() {
                super::$fact(&World::redis().await).await;
            }

            #[tokio::test]
            async fn on_memory_that_hands_on() {
                super::$fact(&World::memory_that_hands_on().await).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis_that_hands_on() {
                super::$fact(&World::redis_that_hands_on().await).await;
            }
        }
    )*};
}
