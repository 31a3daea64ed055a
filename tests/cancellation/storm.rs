//! Many tasks of several threads on few locks, whose callers go at any moment while the server and
//! the wire misbehave: there are never two holders at once, and nothing is left.
//!
//! Which points are hit is chance; what each task does follows from a seed, which is printed.
//! `DLOCK_STORM_SEED` sets the first seed.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dlock_harness::wait::{pause, within};
use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockError, LockGuard, LockPool, Release, Wait};
use dlock_tests::{Seeded, locks};
use tokio::runtime::Builder;
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::timeout;

use crate::world::A_WHILE;

const KEYS: u64 = 50;
const TASKS: u64 = 500;
/// Each task makes at least this many visits, and goes on until as many visits got the lock as
/// there are tasks.
const ROUNDS: u64 = 6;

/// No lease ends by itself within a test.
const LONG: Duration = Duration::from_secs(300);

/// The message of an intended panic.
const INTENDED: &str = "intended";

/// What a lock protects.
#[derive(Default)]
struct Room {
    is_taken: AtomicBool,
    last_fence: AtomicU64,
}

/// A visitor that holds the lock; it leaves before its guard does.
struct Inside<'a>(&'a Room);

impl Room {
    fn enter(&self, guard: &LockGuard) -> Inside<'_> {
        assert!(!self.is_taken.swap(true, Ordering::SeqCst), "two are in");
        let fence = guard.fence().get();
        let last = self.last_fence.fetch_max(fence, Ordering::SeqCst);
        assert!(last < fence, "{fence} after {last}");
        Inside(self)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::SeqCst);
    }
}

/// Two pools, as two processes would have them, and their rooms.
struct House {
    server: RedisServer,
    pools: [LockPool; 2],
    rooms: Vec<Room>,
    entered: AtomicU64,
}

impl House {
    async fn new() -> Self {
        // A write reaches the append-only file before its answer is sent, so it survives a
        // `SIGKILL`; the disk is not synced, so a slow one costs no time.
        let args = ["--appendonly", "yes", "--appendfsync", "no"];
        let server = RedisServer::builder().args(args).start();
        let config = || Config::new(server.url()).command_timeout(Duration::from_secs(1));
        let pools = [
            LockPool::connect(config()).await.unwrap(),
            LockPool::connect(config().connections(4)).await.unwrap(),
        ];
        Self {
            server,
            pools,
            rooms: (0..KEYS).map(|_| Room::default()).collect(),
            entered: AtomicU64::new(0),
        }
    }

    /// One lock, from the request to the release, in one of many ways.
    async fn visit(&self, mut random: Seeded) -> Result<(), LockError> {
        let pool = &self.pools[usize::from(random.between(0, 2) == 0)];
        let number = random.between(0, KEYS);
        let wait = match random.between(0, 4) {
            0 => Wait::Once,
            1 => Wait::For(Duration::from_millis(random.between(0, 30))),
            _ => Wait::For(A_WHILE),
        };
        let asked = |key: &str| pool.lock(format!("{key}:{number}")).ttl(LONG).wait(wait);
        let request = match random.between(0, 8) {
            0 => asked("room").release(Release::Background),
            1 => asked("room").fair(),
            2 | 3 => return leave(asked("shelf").read().acquire().await?, &mut random).await,
            _ => asked("room"),
        };
        let guard = request.acquire().await?;
        let inside = self.rooms[usize::try_from(number).unwrap()].enter(&guard);
        self.entered.fetch_add(1, Ordering::Relaxed);
        pause(Duration::from_micros(random.between(0, 500))).await;
        match random.between(0, 5) {
            0 => resume_unwind(Box::new(INTENDED)),
            1 => guard.verify().await?,
            _ => {}
        }
        drop(inside);
        leave(guard, &mut random).await
    }
}

async fn leave(guard: LockGuard, random: &mut Seeded) -> Result<(), LockError> {
    if random.between(0, 3) > 0 {
        guard.release().await?;
    }
    Ok(())
}

/// Some visits end by a timeout, some by an abort, some by the end of their runtime.
async fn visits(house: Arc<House>, mut random: Seeded) {
    let few_got_in = || house.entered.load(Ordering::Relaxed) < TASKS;
    let mut rounds = 0..ROUNDS;
    while rounds.next().is_some() || few_got_in() {
        let longest = 1 << random.between(8, 24);
        let patience = Duration::from_micros(random.between(0, longest));
        let (own, visitor) = (house.clone(), Seeded(random.between(0, u64::MAX)));
        let visit = async move { drop(own.visit(visitor).await) };
        let outcome = match random.between(0, 60) {
            0 => on_its_own(visit, patience).await,
            1..30 => {
                tokio::spawn(async move { timeout(patience, visit).await.unwrap_or(()) }).await
            }
            _ => aborted(tokio::spawn(visit), patience).await,
        };
        if let Err(error) = outcome
            && let Ok(why) = error.try_into_panic()
            && why.downcast_ref::<&str>() != Some(&INTENDED)
        {
            resume_unwind(why);
        }
    }
}

/// On a runtime that ends while the visit may still be under way.
async fn on_its_own(
    visit: impl Future<Output = ()> + Send + 'static,
    patience: Duration,
) -> Result<(), JoinError> {
    let blocking = move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let visit = runtime.spawn(visit);
        runtime.block_on(async { timeout(patience, visit).await.unwrap_or(Ok(())) })
    };
    tokio::task::spawn_blocking(blocking).await?
}

async fn aborted(mut visit: JoinHandle<()>, patience: Duration) -> Result<(), JoinError> {
    if let Ok(outcome) = timeout(patience, &mut visit).await {
        return outcome;
    }
    visit.abort();
    visit.await
}

/// One fault of the server or its connections.
async fn trouble(server: &RedisServer, random: &mut Seeded) {
    match random.between(0, 12) {
        0 => {
            server.kill9();
            server.restart_empty();
        }
        1 | 2 => {
            server.stop_signal();
            pause(Duration::from_millis(random.between(0, 100))).await;
            server.cont();
        }
        3..=5 => drop(server.cmd(&["SCRIPT", "FLUSH"]).await),
        _ => drop(server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await),
    }
}

async fn storm(seed: u64) {
    let house = Arc::new(House::new().await);
    let mut random = Seeded(seed);
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let own = Seeded(random.between(0, u64::MAX));
        tasks.spawn(visits(house.clone(), own));
    }
    while !tasks.is_empty() {
        trouble(&house.server, &mut random).await;
        let entered = || house.entered.load(Ordering::Relaxed);
        let then = entered() + random.between(1, 30);
        until("some get in", A_WHILE * 3, async || {
            while let Some(done) = tasks.try_join_next() {
                done.unwrap();
            }
            entered() >= then || tasks.is_empty()
        })
        .await;
    }
    for pool in &house.pools {
        let drained = pool.shutdown().await;
        assert!(drained.is_complete(), "{drained:?}");
    }
    locks::until_none(&house.server, A_WHILE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nobody_is_in_beside_another_and_nothing_is_left() {
    let first = std::env::var("DLOCK_STORM_SEED").map_or(0, |it| it.parse().unwrap());
    for seed in first..first + 3 {
        println!("seed {seed}");
        let done = within(Duration::from_secs(60), storm(seed)).await;
        assert!(done.is_some(), "seed {seed} does not end");
    }
}
