//! A lab for the lock `item` of any kind: holders and waiters in this process, processes that ask
//! for it, and the lock's keys on the server.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dlock_harness::{Child, Interval, RedisServer, wait};
use dlock_runtime::{LockGuard, LockPool, LockRequest, Wait};
use dlock_tests::{locks, of_kind, patient};
use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::fleet::{CAP, old_worker, worker};

/// A waiter that has been silent for this long is passed over.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(3500);

/// How long a granted lock lasts until its waiter has confirmed that it runs.
pub(crate) const CLAIM: Duration = Duration::from_secs(3);

/// The longest pause between two polls of a waiter: a second and a tenth.
pub(crate) const POLL: Duration = Duration::from_millis(1100);

/// What a busy machine may add to a bound.
pub(crate) const SLACK: Duration = Duration::from_millis(1500);

/// The lease of a process that is to die.
pub(crate) const TTL: Duration = Duration::from_secs(4);

const ITEM: &str = "item";
const LOCK: &str = "lock:item";

pub(crate) struct Item {
    server: RedisServer,
    pool: LockPool,
}

/// A waiting task of this process; returns the time at which it got the lock.
pub(crate) type Waiter = JoinHandle<(LockGuard, Instant)>;

/// Makes the server execute once the scripts that many tasks send at the same time, so that later
/// commands arrive in the order in which they are sent: a command with an unknown script is
/// repeated with its text, after whatever was sent meanwhile.
async fn know_the_scripts(pool: &LockPool) {
    let at_once = (0..16).map(|other| pool.lock(format!("other:{other}")).run(async |_| ()));
    for done in join_all(at_once).await {
        done.unwrap();
    }
}

/// The same for those of an older build.
async fn know_the_older_scripts(server: &RedisServer) {
    let url = server.url();
    let (tasks, rounds) = ("tasks=16", "rounds=2");
    let mut older = worker(&[
        "kinds",
        &url,
        "seed=1",
        "mix=keys",
        "parties=1",
        tasks,
        rounds,
        "apart=0",
        "ttl_ms=3000",
    ]);
    older.expect_line("done", CAP).await;
    server.cmd(&["DEL", "parties"]).await;
}

impl Item {
    pub(crate) async fn new() -> Self {
        let server = RedisServer::start();
        let pool = LockPool::connect(patient(server.url())).await.unwrap();
        know_the_scripts(&pool).await;
        if old_worker().is_some() {
            know_the_older_scripts(&server).await;
        }
        Self { server, pool }
    }

    fn request(&self, kind: &str) -> LockRequest {
        let request = of_kind(self.pool.lock(ITEM), kind);
        request.ttl(TTL).renew().wait(Wait::Forever)
    }

    /// Takes the lock and keeps renewing it.
    pub(crate) async fn close(&self, kind: &str) -> LockGuard {
        self.request(kind).acquire().await.unwrap()
    }

    /// Starts a task of this process that waits behind the others.
    pub(crate) async fn waits(&self, kind: &str) -> Waiter {
        let before = self.places().await.len();
        let acquire = self.request(kind).acquire();
        let waiter = tokio::spawn(async { (acquire.await.unwrap(), Instant::now()) });
        self.until_entries(before + 1).await;
        waiter
    }

    /// Starts a process with this many tasks that ask for the lock.
    pub(crate) fn asks(&self, kind: &str, seed: u64, tasks: u64, hold_ms: u64) -> Child {
        worker(&[
            "ask",
            &self.server.url(),
            &format!("kind={kind}"),
            &format!("seed={seed}"),
            &format!("tasks={tasks}"),
            &format!("hold_ms={hold_ms}"),
            &format!("ttl_ms={}", TTL.as_millis()),
        ])
    }

    /// Starts a process that holds the lock until it is killed; returns its fence, too.
    pub(crate) async fn holds(&self, kind: &str) -> (Child, u64) {
        let mut child = self.asks(kind, 1, 1, 600_000);
        let begun = child.expect_line("begins ", CAP).await;
        (child, Interval::parse(&begun).unwrap().fence)
    }

    pub(crate) async fn places(&self) -> Vec<String> {
        locks::queue(&self.server, ITEM).await
    }

    pub(crate) async fn until_entries(&self, count: usize) {
        locks::until_queued(&self.server, ITEM, count, CAP).await;
    }

    /// Waits until this many heartbeats have lapsed.
    pub(crate) async fn until_lapsed(&self, count: usize) {
        locks::until_lapsed(&self.server, ITEM, count, CAP).await;
    }

    /// The time left of a process's entry, if it has one; of a lock with one holder, that of its key.
    pub(crate) async fn left(&self, pid: u32) -> Option<Duration> {
        let words = ["ZRANGE", LOCK, "0", "-1", "WITHSCORES"];
        let Ok(entries) = self.server.try_cmd(&words).await else {
            let left = self.server.pttl(LOCK).await;
            return u64::try_from(left).ok().map(Duration::from_millis);
        };
        let entries: BTreeMap<String, f64> = redis::from_redis_value(entries).unwrap();
        let is_meta = |entry: &str| entry.starts_with("1|#|");
        let mut holders = entries.keys().filter(|entry| !is_meta(entry));
        let entry = holders.find(|entry| pid_of(entry) == pid)?;
        #[allow(clippy::cast_precision_loss, reason = "exact until 2255")]
        let micros = entries[entry] - locks::time(&self.server).await as f64;
        Some(Duration::from_secs_f64(micros.max(0.0) / 1e6))
    }

    pub(crate) async fn nothing_is_left(&self) {
        locks::until_none(&self.server, CAP).await;
    }
}

/// The lock, and how long after `since` the waiter got it.
pub(crate) async fn had_after(waiter: Waiter, since: Instant) -> (LockGuard, Duration) {
    let had = wait::within(CAP, waiter).await.expect("it gets its turn");
    let (guard, at) = had.unwrap();
    (guard, at.saturating_duration_since(since))
}

/// The pid in an entry, which ends with `…|<pid>|<function>|<since>`.
pub(crate) fn pid_of(entry: &str) -> u32 {
    let pid = entry.rsplit('|').nth(2).expect("a description");
    pid.parse().unwrap_or_else(|_| panic!("{entry}"))
}

/// The number of the task that wrote an entry, which is the function's name in it.
pub(crate) fn task_of(entry: &str) -> u64 {
    let task = entry.rsplit('|').nth(1).expect("a description");
    task.parse().unwrap_or_else(|_| panic!("{entry}"))
}
