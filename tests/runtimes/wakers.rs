//! Wakers are the program's code. Some own a task: an executor whose tasks are owned by their wakers
//! alone drops a task, and the guard and the acquire that it holds, with the last of them. Where that
//! happens, no mutex may be locked that these need. Some panic: that harms their own call alone.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use dlock_harness::{RedisServer, until, wait::scaled};
use dlock_runtime::{Config, LockGuard, LockPool, Wait};

use crate::{clients, current_thread, warm_pool};

/// Longer than anything here takes that does not hang.
const CAP: Duration = Duration::from_secs(20);

type Waits = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A task that waits for nothing but this waker, with what it holds.
struct Task(#[expect(dead_code, reason = "held")] Mutex<(LockGuard, Waits)>);

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// How a future goes on that has the last waker of a task.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// Another task polls it.
    Moves,
    /// `is_answered`: after its acquire was, when only the local queue has its waker.
    IsDropped { is_answered: bool },
}

#[derive(Clone, Copy, Debug)]
enum How {
    Waits,
    Tries,
}

fn poll(waits: &mut Waits, waker: &Waker) {
    let polled = waits.as_mut().poll(&mut Context::from_waker(waker));
    assert!(polled.is_pending());
}

fn acquire(pool: &LockPool, key: &'static str, how: How) -> Waits {
    let request = pool.lock(key).wait(Wait::Forever);
    Box::pin(async move {
        match how {
            How::Waits => drop(request.acquire().await),
            How::Tries => drop(request.try_acquire().await),
        }
    })
}

/// Nothing is sent before the last waker goes, unless it goes later.
async fn scene(server: &RedisServer, pool: &LockPool, how: How, then: Then) {
    let guard = pool.lock("owned").acquire().await.unwrap();
    let [mut first, mut second, mut owned, mut last] =
        ["1", "2", "3", "4"].map(|key| acquire(pool, key, how));
    for waits in [&mut first, &mut second, &mut owned] {
        poll(waits, Waker::noop());
    }
    let task = Arc::new(Task(Mutex::new((guard, owned))));
    let alive = Arc::downgrade(&task);
    poll(&mut last, &task.into());
    assert!(alive.strong_count() > 0, "only by wakers");
    match then {
        Then::Moves => poll(&mut last, Waker::noop()),
        Then::IsDropped { is_answered } => {
            let is_ready = async || !is_answered || server.pttl("lock:4").await > 0;
            until("its lock is granted", CAP, is_ready).await;
            drop(last);
        }
    }
    assert_eq!(alive.strong_count(), 0, "{how:?}, {then:?}");
    until("its lock is free", CAP, async || {
        server.pttl("lock:owned").await == -2
    })
    .await;
}

#[test]
fn the_last_waker_of_a_task_that_holds_and_waits() {
    let (ends, ended) = mpsc::channel();
    // What is tested would block its thread for ever.
    let runs = thread::spawn(move || {
        let runtime = current_thread();
        runtime.block_on(async {
            let server = RedisServer::start();
            let pool = warm_pool(server.url()).await;
            for how in [How::Waits, How::Tries] {
                for then in [
                    Then::Moves,
                    Then::IsDropped { is_answered: false },
                    Then::IsDropped { is_answered: true },
                ] {
                    scene(&server, &pool, how, then).await;
                }
            }
        });
        ends.send(()).unwrap();
    });
    match ended.recv_timeout(scaled(CAP * 2)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        _ => runs.join().unwrap(),
    }
}

/// A waker that panics when it is woken, and when it is dropped.
struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker, on purpose");
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        // A second panic while its `wake` unwinds would be the waker's own abort.
        assert!(thread::panicking(), "a waker's drop, on purpose");
    }
}

/// Polls a call once, with a waker of its own that panics.
fn poll_harmful(waits: &mut Waits) {
    let waker = Waker::from(Arc::new(Panics));
    poll(waits, &waker);
    // The last one is dlock's, or this one if dlock keeps none.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(waker)));
}

/// Drops such calls. A timer of theirs drops the last waker, in their own drop.
fn drop_harmful(waits: impl IntoIterator<Item = Waits>) {
    for each in waits {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(each)));
    }
}

/// In which place a waker panics.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the leader of a queue, when it gets the lock for the first waiter, and then ends.
    Leader,
    /// In the end of the runtime that runs the leader.
    EndOfRuntime,
    /// In the task that reads the answers of a connection.
    Connection,
    /// In the task that sends a batch.
    Batch,
    /// In the attempt to connect.
    Connecting,
    /// In the watchdog, when it tells of a lease that was lost.
    Watchdog,
    /// In a release, when the pool drains.
    Drain,
}

fn harmful(pool: &LockPool, keys: impl IntoIterator<Item = String>, how: How) -> Vec<Waits> {
    let begin = |key: String| {
        let mut waits = acquire(pool, key.leak(), how);
        poll_harmful(&mut waits);
        waits
    };
    keys.into_iter().map(begin).collect()
}

fn same(key: &str, times: usize) -> impl Iterator<Item = String> {
    std::iter::repeat_n(key.to_owned(), times)
}

async fn taken(pool: &LockPool, key: &str) -> LockGuard {
    let taken = tokio::time::timeout(scaled(CAP), pool.lock(key).wait(CAP).acquire()).await;
    taken.expect("it hangs").unwrap()
}

/// What panics in this place; a call beside it then gets its lock, over the same connections.
async fn harmed(server: &RedisServer, pool: &LockPool, place: Place) {
    let key = format!("{place:?}");
    let others = (0..6).map(|it| format!("{place:?}{it}"));
    match place {
        Place::Leader => {
            let held = taken(pool, &key).await;
            let waits = harmful(pool, same(&key, 50), How::Waits);
            until("they queue", CAP, async || !server.keys().await.is_empty()).await;
            held.release().await.unwrap();
            tokio::time::sleep(Duration::from_millis(50)).await; // for what must not happen
            drop_harmful(waits);
        }
        Place::EndOfRuntime => {
            let held = taken(pool, &key).await;
            let another = current_thread();
            let waits = {
                let _entered = another.enter();
                harmful(pool, same(&key, 50), How::Waits)
            };
            // Tokio wakes their timers, and passes the panic on.
            let _ = catch_unwind(AssertUnwindSafe(|| another.shutdown_background()));
            let behind = pool.lock(key.as_str()).wait(CAP).acquire();
            let (ended, behind) = tokio::join!(held.release(), async {
                drop_harmful(waits);
                behind.await
            });
            ended.unwrap();
            behind.unwrap().release().await.unwrap();
        }
        Place::Connection => {
            let before = clients(server).await.len();
            let waits = harmful(pool, others.take(1), How::Tries);
            taken(pool, &key).await.release().await.unwrap();
            drop_harmful(waits);
            assert_eq!(clients(server).await.len(), before);
        }
        Place::Batch => {
            let waits = harmful(pool, others, How::Tries);
            taken(pool, &key).await.release().await.unwrap();
            drop_harmful(waits);
        }
        Place::Connecting => {
            let pool = LockPool::connect(Config::new(server.url()).lazy())
                .await
                .unwrap();
            let waits = harmful(&pool, others, How::Tries);
            taken(&pool, &key).await.release().await.unwrap();
            drop_harmful(waits);
        }
        Place::Watchdog => {
            let taken = |key: String| pool.lock(key).ttl(Duration::from_secs(1)).renew().acquire();
            let mut guards = Vec::new();
            for key in others {
                guards.push(taken(key).await.unwrap());
            }
            let lost = |guard: &LockGuard| {
                let lost = guard.lost();
                Box::pin(async move {
                    let _ = lost.await;
                }) as Waits
            };
            let mut waits: Vec<_> = guards.iter().map(lost).collect();
            let ours = waits.pop().unwrap();
            waits.iter_mut().for_each(poll_harmful);
            server.cmd(&["FLUSHALL"]).await;
            tokio::time::timeout(scaled(CAP), ours).await.expect("told");
            assert!(guards.iter().all(|it| !it.is_held()));
            drop_harmful(waits);
        }
        Place::Drain => {
            let pool = warm_pool(server.url()).await;
            let held = taken(&pool, &key).await;
            let drains = |pool: &LockPool| {
                let pool = pool.clone();
                Box::pin(async move {
                    let _ = pool.shutdown().await;
                }) as Waits
            };
            let mut waits = [drains(&pool), drains(&pool)];
            waits.iter_mut().for_each(poll_harmful);
            let behind = tokio::spawn(drains(&pool));
            tokio::task::yield_now().await;
            held.release().await.unwrap();
            let ended = tokio::time::timeout(scaled(CAP / 2), behind).await;
            ended.expect("it is told").unwrap();
            drop_harmful(waits);
        }
    }
    taken(pool, &key).await.release().await.unwrap();
}

#[tokio::test]
async fn a_waker_that_panics_harms_its_own_call_alone() {
    for place in [
        Place::Leader,
        Place::EndOfRuntime,
        Place::Connection,
        Place::Batch,
        Place::Connecting,
        Place::Watchdog,
        Place::Drain,
    ] {
        let server = RedisServer::start();
        let pool = warm_pool(server.url()).await;
        let _reader = clients(&server).await; // its connection is there from now on
        harmed(&server, &pool, place).await;
    }
}
