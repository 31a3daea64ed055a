//! A listener is told each end of a call, of a hold and of a lease, once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{
    AcquireOutcome, Config, HoldOutcome, LockError, LockInfo, LockListener, LockPool, LostCause,
    Wait, distributed_lock,
};

use crate::record::{self, record};
use crate::{CAP, OFTEN};

/// Keeps what it is told, a line each.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Told {
    fn add(&self, what: &str, lock: &LockInfo<'_>, how: &str) {
        let (class, kind) = (lock.class(), lock.kind());
        self.0
            .lock()
            .unwrap()
            .push(format!("{what} {class} {kind} {how}"));
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn count(&self, line: &str) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|it| *it == line).count()
    }
}

impl LockListener for Told {
    fn acquire_ended(&self, lock: &LockInfo<'_>, outcome: AcquireOutcome, _: Duration) {
        self.add("acquire", lock, outcome.as_str());
    }

    fn hold_ended(&self, lock: &LockInfo<'_>, outcome: HoldOutcome, _: Duration) {
        self.add("hold", lock, outcome.as_str());
    }

    fn lost(&self, lock: &LockInfo<'_>, cause: LostCause) {
        assert!(lock.function().contains("listener"), "{lock:?}");
        self.add("lost", lock, cause.as_str());
    }

    fn renewed(&self, lock: &LockInfo<'_>, left: Duration, lease: Duration) {
        assert!(!left.is_zero() && left < lease, "{left:?} of {lease:?}");
        self.add("renewed", lock, "");
    }
}

async fn listened(config: impl Into<Config>) -> (LockPool, Arc<Told>) {
    let told = Arc::new(Told::default());
    let config = config.into().listener(told.clone());
    (LockPool::connect(config).await.unwrap(), told)
}

#[distributed_lock(key = "item:<id>")]
async fn item(id: u64) -> Result<(), LockError> {
    let _ = id;
    Ok(())
}

#[distributed_lock(key = "item:<id>", ttl = "60s")]
async fn endless(id: u64) -> Result<(), LockError> {
    let _ = id;
    std::future::pending().await
}

#[distributed_lock(key = "item:<id>", ttl = "300ms")]
async fn too_long(id: u64) -> Result<(), LockError> {
    let _ = id;
    std::future::pending().await
}

#[tokio::test]
async fn a_call_and_its_hold_are_told_once() {
    let (pool, told) = listened("memory://").await;
    for id in 0..3 {
        pool.scope(item(id)).await.unwrap();
    }
    let each = [
        "acquire item:<id> exclusive at_once",
        "hold item:<id> exclusive in_time",
    ];
    assert_eq!(told.take(), [each, each, each].concat());
}

#[tokio::test]
async fn a_call_that_fails_is_told() {
    let (pool, told) = listened("memory://").await;
    let key = dlock_runtime::lock_key!("k");
    let held = pool.lock(key.clone()).acquire().await.unwrap();
    assert!(
        pool.lock(key.clone())
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let waits = pool.lock(key.clone()).wait(Wait::Forever).acquire();
    assert!(
        tokio::time::timeout(Duration::from_millis(20), waits)
            .await
            .is_err()
    );
    assert!(pool.lock(key.clone()).read().try_acquire().await.is_err());
    held.release().await.unwrap();
    pool.shutdown().await;
    assert!(pool.lock(key).acquire().await.is_err());
    let expected = [
        "acquire k exclusive at_once",
        "acquire k exclusive busy",
        "acquire k exclusive cancelled",
        "acquire k read refused",
        "hold k exclusive in_time",
        "acquire k exclusive failed",
    ];
    assert_eq!(told.take(), expected);
}

#[tokio::test]
async fn a_body_that_a_shutdown_stops_is_told_as_stopped() {
    let config = Config::new("memory://").shutdown_grace(Duration::ZERO);
    let (pool, told) = listened(config).await;
    let (stopped, drained) = tokio::join!(pool.scope(endless(7)), pool.shutdown());
    assert!(
        matches!(stopped, Err(LockError::Lost { .. })),
        "{stopped:?}"
    );
    assert!(drained.is_complete());
    let expected = [
        "acquire item:<id> exclusive at_once",
        "hold item:<id> exclusive stopped",
    ];
    assert_eq!(told.take(), expected);
}

#[tokio::test]
async fn a_loss_is_told_once_and_so_is_the_hold_that_it_ended() {
    let server = RedisServer::start();
    let (pool, told) = listened(server.url()).await;
    let lost = pool.scope(too_long(7)).await;
    assert!(matches!(lost, Err(LockError::Lost { .. })), "{lost:?}");
    let expected = [
        "acquire item:<id> exclusive at_once",
        "lost item:<id> exclusive deadline",
        "hold item:<id> exclusive lost",
    ];
    until("the hold is over", CAP, async || {
        told.count(expected[2]) == 1
    })
    .await;
    assert_eq!(told.take(), expected);
}

/// A second waiter of a held lock; how it gets the lock is told when it has been released.
async fn outcome_of_waiter(one: LockPool, two: &LockPool) {
    let key = || dlock_runtime::lock_key!("k");
    let held = one.lock(key()).acquire().await.unwrap();
    let acquire = two.lock(key()).wait(Wait::Forever).acquire();
    let waits = tokio::spawn(async move { acquire.await.unwrap().release().await.unwrap() });
    until("it waits", CAP, async || {
        let status = two.status().unwrap();
        status.waiting == 1 && status.in_flight == 0
    })
    .await;
    held.release().await.unwrap();
    waits.await.unwrap();
}

#[tokio::test]
async fn a_waiter_is_told_that_the_server_granted_it_the_lock() {
    let server = RedisServer::start();
    let (one, _) = listened(server.url()).await;
    let (two, told) = listened(server.url()).await;
    outcome_of_waiter(one, &two).await;
    assert_eq!(told.count("acquire k exclusive in_turn"), 1);
}

/// Hand-off ends some time after the grant, so the clock stands still.
#[tokio::test(start_paused = true)]
async fn a_waiter_is_told_that_it_was_handed_the_lock() {
    let (pool, told) = listened("memory://").await;
    outcome_of_waiter(pool.clone(), &pool).await;
    assert_eq!(told.count("acquire k exclusive handed_on"), 1);
}

#[tokio::test]
async fn renewals_are_told_with_what_was_left() {
    let server = RedisServer::start();
    let (pool, told) = listened(server.url()).await;
    let key = dlock_runtime::lock_key!("k");
    let lock = pool.lock(key).ttl(CAP).renew_every(OFTEN);
    let held = lock.acquire().await.unwrap();
    until("it is renewed", CAP, async || {
        told.count("renewed k exclusive ") > 1
    })
    .await;
    held.release().await.unwrap();
}

/// One call, a hold of each key.
#[tokio::test]
async fn several_keys_are_one_call() {
    let (pool, told) = listened("memory://").await;
    let (from, to) = (1, 2);
    let keys = [
        dlock_runtime::lock_key!("a:<from>"),
        dlock_runtime::lock_key!("b:<to>"),
    ];
    let both = pool.lock_all(keys).acquire().await.unwrap();
    both.release().await.unwrap();
    let expected = [
        "acquire a:<from> exclusive at_once",
        "hold a:<from> exclusive in_time",
        "hold b:<to> exclusive in_time",
    ];
    assert_eq!(told.take(), expected);
}

/// A call that joins its own body's lock neither waits nor holds.
#[tokio::test]
async fn a_joined_lock_is_not_told() {
    let (pool, told) = listened("memory://").await;
    let key = || dlock_runtime::lock_key!("k");
    let nested = pool.lock(key()).run(async |_| {
        let inner = pool.lock(key()).reentrant().acquire().await.unwrap();
        drop(inner);
    });
    nested.await.unwrap();
    let expected = ["acquire k exclusive at_once", "hold k exclusive in_time"];
    assert_eq!(told.take(), expected);
}

/// Nobody renews it, so only the release finds out.
#[tokio::test]
async fn a_lock_that_was_gone_when_it_was_released_is_lost() {
    let server = RedisServer::start();
    let (pool, told) = listened(server.url()).await;
    let held = pool.lock(dlock_runtime::lock_key!("k")).acquire();
    let held = held.await.unwrap();
    server.cmd(&["DEL", "lock:k"]).await;
    held.release().await.unwrap();
    let expected = [
        "acquire k exclusive at_once",
        "hold k exclusive in_time",
        "lost k exclusive gone",
    ];
    assert_eq!(told.take(), expected);
}

/// The process stands still, so nobody notices the deadline before the holder is done.
#[tokio::test]
async fn a_hold_that_outlives_its_lease_is_lost() {
    let (pool, told) = listened("memory://").await;
    let lock = pool.lock(dlock_runtime::lock_key!("k"));
    let held = lock.ttl(Duration::from_millis(50)).acquire().await.unwrap();
    std::thread::sleep(Duration::from_millis(100));
    drop(held);
    let expected = [
        "acquire k exclusive at_once",
        "lost k exclusive deadline",
        "hold k exclusive lost",
    ];
    assert_eq!(told.take(), expected);
}

struct Panics;

impl LockListener for Panics {
    fn acquire_ended(&self, _: &LockInfo<'_>, _: AcquireOutcome, _: Duration) {
        panic!("in a listener");
    }

    fn renewed(&self, _: &LockInfo<'_>, _: Duration, _: Duration) {
        panic!("in a listener, on the watchdog's thread");
    }
}

/// What observers are told of a lock panics: it is renewed and released all the same.
async fn is_not_harmed(server: &RedisServer, config: Config, key: &str) {
    let pool = LockPool::connect(config).await.unwrap();
    let held = pool.lock(key).ttl(CAP).renew_every(OFTEN);
    let held = held.acquire().await.unwrap();
    let renewed = server.commandstats("evalsha").await;
    until("it is renewed again and again", CAP, async || {
        server.commandstats("evalsha").await > renewed + 5
    })
    .await;
    held.release().await.unwrap();
    assert_eq!(server.pttl(&format!("lock:{key}")).await, -2);
}

#[tokio::test]
async fn a_listener_that_panics_ends_nothing() {
    let server = RedisServer::start();
    let config = Config::new(server.url()).listener(Panics);
    is_not_harmed(&server, config, "k").await;
}

#[tokio::test]
async fn a_subscriber_that_panics_ends_nothing() {
    record();
    let server = RedisServer::start();
    let config = Config::new(server.url());
    is_not_harmed(&server, config, record::HARMFUL).await;
}
