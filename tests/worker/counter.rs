//! A counter that stays correct only under a lock: read, sleep, write, each a command of its own.
//!
//! Its keys are outside the lock's namespace. Several tasks of each process count, `rounds` times
//! each. No process begins before all `parties` processes are there, so that they really compete.

use std::time::Duration;

use dlock_harness::{Interval, now_ns, until};
use dlock_runtime::{LockError, distributed_lock};
use dlock_tests::Seeded;
use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, AsyncConnectionConfig};

use crate::settings::Settings;

const PATIENCE: Duration = Duration::from_secs(30);

#[distributed_lock(key = "counter", wait = "2m", renew, guard = lock)]
async fn add_one_locked(counter: &mut Counter) -> Result<Interval, LockError> {
    let mut interval = counter.add_one().await;
    interval.fence = lock.fence().get();
    lock.key().as_str().clone_into(&mut interval.key);
    Ok(interval)
}

/// Counts under the lock, and prints the interval of each hold.
#[tokio::main]
pub(crate) async fn locked(settings: &Settings) {
    let pool = dlock_runtime::init(settings.config()).await.unwrap();
    pool.ping().await.unwrap();
    count(settings, async |counter| {
        add_one_locked(counter).await.unwrap()
    })
    .await;
    assert!(dlock_runtime::shutdown().await.is_complete());
}

/// The same without a lock, to test the test.
#[tokio::main]
pub(crate) async fn unlocked(settings: &Settings) {
    count(settings, Counter::add_one).await;
}

async fn count(settings: &Settings, add_one: impl AsyncFn(&mut Counter) -> Interval) {
    let redis = meet(settings).await;
    let rounds = settings.number("rounds");
    let tasks = (0..settings.number("tasks")).map(|task| {
        let mut counter = Counter {
            redis: redis.clone(),
            random: Seeded(settings.number("seed") * 1000 + task),
            who: format!("process {} task {task}", std::process::id()),
        };
        let add_one = &add_one;
        async move {
            for _ in 0..rounds {
                println!("{}", add_one(&mut counter).await);
            }
        }
    });
    futures_util::future::join_all(tasks).await;
    println!("done");
}

/// Waits until this many processes have arrived, at the server of the lock or at `meet=<url>`;
/// returns a connection of its own.
pub(crate) async fn meet(settings: &Settings) -> MultiplexedConnection {
    let client = redis::Client::open(settings.text_or("meet", &settings.url)).unwrap();
    // The default timeout of half a second is too short on a busy machine.
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(Some(PATIENCE));
    let connect = client.get_multiplexed_async_connection_with_config(&config);
    let (mut redis, parties) = (connect.await.unwrap(), settings.number("parties"));
    let _: u64 = redis.incr("parties", 1).await.unwrap();
    until("all processes are there", PATIENCE, async || {
        redis.get::<_, u64>("parties").await.unwrap() >= parties
    })
    .await;
    redis
}

struct Counter {
    redis: MultiplexedConnection,
    random: Seeded,
    who: String,
}

impl Counter {
    /// Returns the interval of the body. The caller sets the fence; without one it is the time,
    /// which never repeats.
    async fn add_one(&mut self) -> Interval {
        let start_ns = now_ns();
        let before: Option<u64> = self.redis.get("counter").await.unwrap();
        tokio::time::sleep(Duration::from_millis(self.random.between(1, 8))).await;
        let after = before.unwrap_or(0) + 1;
        let () = self.redis.set("counter", after).await.unwrap();
        Interval {
            key: "counter".to_owned(),
            fence: start_ns,
            start_ns,
            end_ns: now_ns(),
            who: self.who.clone(),
        }
    }
}
