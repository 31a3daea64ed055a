//! `shutdown` of a pool, and of the global pools while others wait. That ends the global pools for
//! good, so each such test runs in a process of its own.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use dlock_harness::RedisServer;
use dlock_harness::polls::{Cut, When, dropped_at};
use dlock_runtime::{
    Config, Drained, LockError, LockGuard, LockPool, LostCause, Release, Wait, distributed_lock,
};
use futures_util::poll;
use tokio::sync::oneshot;

use crate::backends::{LONG, is_lost, ms, patient, running, settled, soon, soon_free};
use crate::global::alone_on;

on_every_backend!(
    a_pool_that_is_shut_down_gives_back_what_was_dropped,
    closing_is_heard_by_all_who_wait_for_it,
    ; seconds: what_may_be_stopped_is_stopped_from_the_inside_out, what_may_not_be_stopped_stays,
);

async fn endless() {
    std::future::pending::<()>().await;
}

/// The pool's `shutdown_grace`.
const GRACE: Duration = Duration::from_secs(5);

async fn closing_is_heard_by_all_who_wait_for_it(pool: LockPool) {
    let before = pool.closing();
    let guard = pool.lock("a").ttl(LONG).acquire().await.unwrap();
    let of_guard = guard.closing();
    let body = pool.lock("b").ttl(LONG).run(async |lock: &LockGuard| {
        let handle = dlock_runtime::current().unwrap();
        tokio::join!(lock.closing(), handle.closing(), dlock_runtime::closing());
        lock.is_held()
    });
    let body = tokio::spawn(pool.scope(body));
    running(&pool, 2).await;
    assert!(poll!(Box::pin(pool.closing())).is_pending());
    let shutdown = tokio::spawn(async move { pool.shutdown().await });
    assert!(body.await.unwrap().unwrap(), "it ended by itself, in time");
    tokio::join!(before, of_guard);
    guard.closing().await; // at once, from here on
    guard.release().await.unwrap();
    assert!(shutdown.await.unwrap().is_complete());
}

/// Calls this when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A body inside a body: its lock is given back before the outer body is stopped. Each still has its
/// lock while it is dropped.
async fn what_may_be_stopped_is_stopped_from_the_inside_out(pool: LockPool) {
    let held = || pool.status().unwrap().held;
    let is_inner_first = AtomicBool::new(false);
    let held_at_drops = std::cell::RefCell::new(Vec::new());
    let drops = || OnDrop(|| held_at_drops.borrow_mut().push(held()));
    let lock = |key: &'static str| pool.lock(key).ttl(LONG).renew();
    let outer = lock("outer").run(async |outer: &LockGuard| {
        let _drops = drops();
        let inner = lock("inner").run(async |_| {
            let _drops = drops();
            endless().await;
        });
        is_lost(inner.await, LostCause::ShutDown);
        is_inner_first.store(outer.is_held() && held() == 1, Ordering::Relaxed);
        assert_eq!(outer.lost().await, LostCause::ShutDown);
        endless().await;
    });
    let (outer, (drained, took)) = tokio::join!(outer, shut_down(&pool, 2));
    is_lost(outer, LostCause::ShutDown);
    assert!(is_inner_first.into_inner());
    assert_eq!(*held_at_drops.borrow(), [2, 1]);
    assert!(drained.is_complete(), "{drained:?}");
    assert!(took >= GRACE, "not before the grace was over: {took:?}");
    for key in ["inner", "outer"] {
        assert!(pool.holder(key).await.unwrap().is_none(), "{key}");
    }
}

/// Begins once so many are held. Returns also how long it took.
async fn shut_down(pool: &LockPool, held: usize) -> (Drained, Duration) {
    running(pool, held).await;
    let begun = tokio::time::Instant::now();
    (pool.shutdown().await, begun.elapsed())
}

#[distributed_lock(key = "finished", ttl = "60s", on_shutdown = "finish", pool = pool)]
async fn finished_at_shutdown(
    pool: &LockPool,
    end: oneshot::Receiver<()>,
) -> Result<&'static str, LockError> {
    Ok(end.await.map_or("nobody waits any more", |()| "finished"))
}

#[distributed_lock(key = "lost", ttl = "60s", on_lost = "finish", pool = pool)]
async fn finished_when_lost(
    pool: &LockPool,
    end: oneshot::Receiver<()>,
) -> Result<&'static str, LockError> {
    Ok(end.await.map_or("nobody waits any more", |()| "finished"))
}

/// Nor is the body around one.
async fn what_may_not_be_stopped_stays(pool: LockPool) {
    let guard = pool.lock("guard").ttl(LONG).acquire().await.unwrap();
    let [(end, ended), (end_other, other_ended)] = [(); 2].map(|()| oneshot::channel());
    let (shared, lost) = (pool.clone(), pool.clone());
    let around = tokio::spawn(async move {
        let pool = &shared;
        let around = pool.lock("around").ttl(LONG);
        around
            .run(async |_| finished_at_shutdown(pool, ended).await)
            .await
    });
    let lost = tokio::spawn(async move { finished_when_lost(&lost, other_ended).await });
    running(&pool, 4).await;
    // The server does not answer for long here, so nobody waits for what can't end.
    let shutdown = tokio::time::timeout(GRACE * 2, pool.shutdown()).await;
    if let Ok(drained) = shutdown {
        assert_eq!((drained.held(), drained.unconfirmed()), (4, 0));
    }
    assert!(guard.is_held());
    for key in ["guard", "finished", "lost", "around"] {
        assert!(pool.holder(key).await.unwrap().is_some(), "{key}");
    }
    end.send(()).unwrap();
    end_other.send(()).unwrap();
    assert_eq!(around.await.unwrap().unwrap().unwrap(), "finished");
    assert_eq!(lost.await.unwrap().unwrap(), "finished");
    guard.release().await.unwrap();
    assert!(pool.shutdown().await.is_complete());
}

#[distributed_lock(keys = ["<one>", "<other>"], ttl = "60s", read, on_shutdown = "finish", pool = pool)]
async fn reads(pool: &LockPool, one: &str, other: &str) -> Result<(), LockError> {
    tokio::time::sleep(GRACE + ms(100)).await;
    Ok(())
}

/// The keys that each body reads inside the one before it; the last may not be stopped.
fn inside<'a>(
    pool: &'a LockPool,
    bodies: &'a [&'a str],
) -> Pin<Box<dyn Future<Output = Result<(), LockError>> + 'a>> {
    Box::pin(async move {
        let Some((keys, bodies)) = bodies.split_first() else {
            return Ok(());
        };
        let (one, other) = keys.split_once('+').unwrap_or((keys, keys));
        if bodies.is_empty() {
            return reads(pool, one, other).await;
        }
        let lock = pool.lock_all([one, other]).read().ttl(LONG);
        lock.run(async |_| inside(pool, bodies).await).await?
    })
}

/// Where locks are joined: by the body itself, or by one between it and others.
#[tokio::test(start_paused = true)]
async fn no_body_around_one_that_may_not_be_stopped_is_stopped() {
    for bodies in [
        &["a", "a"][..],
        &["a", "b", "a"],
        &["a", "b", "a", "c"],
        &["a+b", "a", "c"],
        &["a", "a+b"],
        &["a", "a+b", "b", "c"],
    ] {
        let pool = LockPool::connect("memory://").await.unwrap();
        let (ended, (drained, _)) = tokio::join!(inside(&pool, bodies), shut_down(&pool, 1));
        assert!(ended.is_ok(), "{bodies:?}: {ended:?}");
        assert!(drained.is_complete(), "{bodies:?}: {drained:?}");
    }
}

/// Includes guards that were dropped just before, which nothing else waits for at the end of
/// `main`.
async fn a_pool_that_is_shut_down_gives_back_what_was_dropped(pool: LockPool) {
    let held = [pool.lock("a"), pool.lock("b")].map(|it| it.ttl(LONG).acquire());
    let held = futures_util::future::try_join_all(held).await.unwrap();
    let begun = tokio::time::Instant::now();
    drop(held);
    let drained = pool.shutdown().await;
    assert!(drained.is_complete(), "{drained:?}");
    assert!(begun.elapsed() < ms(4_500), "not by the five seconds");
    for key in ["a", "b"] {
        assert!(pool.holder(key).await.unwrap().is_none());
    }
    let refused = pool.clone().lock("a").acquire().await;
    assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
}

/// These wait in no queue, and are not known to the watchdog before they have a connection.
#[tokio::test]
async fn a_call_that_connects_meanwhile_gets_no_lock() {
    let server = RedisServer::start();
    let pool = LockPool::connect(patient(server.url()).lazy()).await;
    let pool = pool.unwrap();
    server.stop_signal();
    let mut once = Box::pin(pool.lock("a").try_acquire());
    let mut all = Box::pin(pool.lock_all(["{s}:a", "{s}:b"]).acquire());
    assert!(poll!(&mut once).is_pending() && poll!(&mut all).is_pending());
    assert!(pool.shutdown().await.is_complete());
    server.cont();
    let (once, all) = tokio::join!(once, all);
    assert!(matches!(once, Err(LockError::ShutDown)), "{once:?}");
    assert!(matches!(all, Err(LockError::ShutDown)), "{all:?}");
    assert!(server.keys().await.is_empty());
}

/// At whichever point of the call the shutdown begins: queued, granted the lock, or confirming it.
#[tokio::test]
async fn no_call_gets_a_lock_once_a_shutdown_has_begun() {
    let server = RedisServer::start();
    for keys in [&["a"][..], &["a", "b"]] {
        for when in [When::AtOnce, When::Woken] {
            let mut polls = 0;
            while !is_cut_by_a_shutdown(&server, keys, Cut { polls, when }).await {
                polls += 1;
            }
            assert!(polls > 2, "{polls}");
        }
    }
}

/// Somebody else has the locks until the call queues. Returns whether the call ended before the cut.
async fn is_cut_by_a_shutdown(server: &RedisServer, keys: &[&str], cut: Cut) -> bool {
    let connect = async || LockPool::connect(patient(server.url())).await.unwrap();
    let (pool, other) = (connect().await, connect().await);
    let request = |pool: &LockPool| pool.lock_all(keys.iter().copied()).ttl(LONG);
    let held = request(&other).acquire().await.unwrap();
    let is_over = AtomicBool::new(false);
    let call = async {
        let mut call = Box::pin(request(&pool).wait(LONG).min_hold(ms(10)).acquire());
        let ended = dropped_at(cut, call.as_mut()).await;
        let is_cut = ended.is_none();
        if is_cut {
            let (drained, refused) = tokio::join!(pool.shutdown(), call);
            let is_refused = matches!(refused, Err(LockError::ShutDown));
            assert!(is_refused, "{cut:?} {keys:?}: {refused:?}");
            assert!(drained.is_complete(), "{cut:?} {keys:?}: {drained:?}");
        } else {
            drop(ended);
            pool.shutdown().await;
        }
        is_over.store(true, Ordering::Relaxed);
        !is_cut
    };
    let queue = ["ZCARD", "lock:@w:{lock:a}"];
    let queues = async || is_over.load(Ordering::Relaxed) || server.ask::<u64>(&queue).await > 0;
    let release = async {
        soon("it queues", queues).await;
        held.release().await.unwrap();
    };
    let (ended, ()) = tokio::join!(call, release);
    for key in keys {
        soon_free(&other, key).await;
    }
    ended
}

/// Waiters for one key (three of them), for another key, and for a key of a named pool; all keys
/// stay held.
async fn waiters_are_sent_away(url: &str) {
    let pool = dlock_runtime::init(patient(url)).await.unwrap();
    let named = dlock_runtime::init_named("billing", patient(url).namespace("billing:"));
    let named = named.await.unwrap();
    let held = [pool.lock("k"), pool.lock("k2"), named.lock("k")].map(|it| it.ttl(LONG).acquire());
    let held = futures_util::future::try_join_all(held).await.unwrap();
    let keys = [
        (&pool, "k"),
        (&pool, "k"),
        (&pool, "k"),
        (&pool, "k2"),
        (&named, "k"),
    ];
    let waits = [Wait::Forever, Wait::For(LONG)].into_iter().cycle();
    let waiters = keys.into_iter().zip(waits);
    let waiters: Vec<_> = waiters
        .map(|((pool, key), wait)| tokio::spawn(pool.lock(key).wait(wait).acquire()))
        .collect();
    settled(&pool).await;
    settled(&named).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));

    let shutdown = tokio::spawn(dlock_runtime::shutdown());
    for waiter in waiters {
        let refused = waiter.await.unwrap();
        assert!(matches!(refused, Err(LockError::ShutDown)), "{refused:?}");
    }
    assert!(!shutdown.is_finished(), "the holders are still there");
    let begun = tokio::time::Instant::now();
    drop(held);
    // The waiters that were sent away have left nothing to clean up.
    assert!(shutdown.await.unwrap().is_complete());
    assert!(begun.elapsed() < ms(4_500), "not by the five seconds");
}

#[test]
fn shutdown_sends_waiters_away_on_memory() {
    alone_on(
        "shutting_down::shutdown_sends_waiters_away_on_memory",
        false,
        waiters_are_sent_away("memory://"),
    );
}

#[test]
fn shutdown_sends_waiters_away_on_redis() {
    alone_on(
        "shutting_down::shutdown_sends_waiters_away_on_redis",
        false,
        async {
            let server = RedisServer::start();
            waiters_are_sent_away(&server.url()).await;
            // No queue entry is left either, nor a waiter that could be granted the lock.
            assert_eq!(server.keys().await, ["billing:@fence", "lock:@fence"]);
        },
    );
}

/// The pool's `shutdown_grace` and `command_timeout` where a test waits for their end.
fn impatient(server: &RedisServer) -> Config {
    let config = Config::new(server.url()).connect_timeout(LONG);
    config.shutdown_grace(ms(300)).command_timeout(ms(1_500))
}

/// Bodies on three runtimes, of which one blocks its thread, and one ended a moment ago whose release
/// nobody waits for.
#[tokio::test]
async fn a_body_that_blocks_its_thread_keeps_its_lock_and_no_other_does() {
    let server = RedisServer::start();
    let pool = LockPool::connect(impatient(&server)).await.unwrap();
    let on_a_thread = |key: &'static str, blocks: Option<std::sync::mpsc::Receiver<()>>| {
        let lock = pool.lock(key).ttl(LONG).renew();
        thread::spawn(move || {
            let body = async |lock: &LockGuard| {
                let Some(end) = blocks else {
                    return endless().await;
                };
                end.recv().unwrap();
                assert!(!lock.is_held(), "it was told to stop");
            };
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime
                .enable_all()
                .build()
                .unwrap()
                .block_on(lock.run(body))
        })
    };
    let (end, blocks) = std::sync::mpsc::channel();
    let (waiting, blocking) = (
        on_a_thread("waits", None),
        on_a_thread("blocks", Some(blocks)),
    );
    running(&pool, 2).await;
    let background = pool.lock("ended").release(Release::Background);
    background.run(async |_| ()).await.unwrap();
    let (drained, took) = shut_down(&pool, 2).await;
    assert_eq!((drained.held(), drained.unconfirmed()), (1, 0));
    assert!(took < ms(300 + 2 * 1_500 + 1_000), "{took:?}");
    is_lost(waiting.join().unwrap(), LostCause::ShutDown);
    assert!(pool.holder("waits").await.unwrap().is_none());
    assert!(pool.holder("ended").await.unwrap().is_none());
    assert!(pool.holder("blocks").await.unwrap().is_some());
    end.send(()).unwrap();
    blocking.join().unwrap().unwrap(); // its value is not lost
    soon("it is released", async || {
        pool.holder("blocks").await.unwrap().is_none()
    })
    .await;
}
