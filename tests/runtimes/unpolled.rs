//! Waiters that are neither polled any more nor dropped: they do not hold up the other waiters for
//! ever.
//!
//! A `select!` in a loop leaves waiters like that, or a stream of futures whose consumer waits for
//! the same key.

use std::pin::Pin;
use std::time::Duration;

use dlock_harness::wait::within;
use dlock_harness::{RedisServer, until};
use dlock_runtime::{Config, LockError, LockGuard, LockPool, LockRequest};
use dlock_tests::locks;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;

use crate::block_on::poll_once;
use crate::warm_pool;

const CAP: Duration = Duration::from_secs(20);
/// Longer than any wait here: so no waiter gets the lock by its last try past the queue, or because
/// a lease has ended.
const LONG: Duration = Duration::from_secs(120);

fn request(pool: &LockPool) -> LockRequest {
    pool.lock("key").ttl(LONG).wait(LONG)
}

type Waiting = Pin<Box<dyn Future<Output = Result<LockGuard, LockError>> + Send>>;

/// Joins the queue, and is not polled again.
async fn polled_once(pool: &LockPool) -> Waiting {
    let mut waiting: Waiting = Box::pin(request(pool).acquire());
    let polled = poll_once(waiting.as_mut()).await;
    assert!(polled.is_none());
    waiting
}

/// The default timeouts: a leader that shows no sign of life for longer than those is replaced.
async fn pools(server: &RedisServer) -> (LockPool, LockPool) {
    let other = LockPool::connect(Config::new(server.url())).await.unwrap();
    (warm_pool(Config::new(server.url())).await, other)
}

/// The waiter behind gets its turn, and so does one that comes then; nothing is left, while the
/// first still exists.
async fn is_served(server: &RedisServer, pool: &LockPool, waiting: Waiting, what: &str) {
    let turn = within(CAP, waiting).await;
    let guard = turn.unwrap_or_else(|| panic!("{what}: held up"));
    guard.unwrap().release().await.unwrap();
    let again = within(CAP, request(pool).acquire()).await.unwrap();
    again.unwrap().release().await.unwrap();
    locks::until_none(server, CAP).await;
}

#[tokio::test]
async fn one_at_the_head_whose_acquire_is_unanswered_holds_up_nobody_for_ever() {
    let server = RedisServer::start();
    let (pool, other) = pools(&server).await;
    let holder = request(&other).acquire().await.unwrap();
    let held = polled_once(&pool).await;
    let neighbour = polled_once(&pool).await;
    holder.release().await.unwrap();
    is_served(&server, &pool, neighbour, "asked for by who is not polled").await;
    drop(held);
}

/// The lock is free, and has been granted to a waiter that is not polled.
#[tokio::test]
async fn one_at_the_head_that_was_granted_the_lock_unseen_holds_up_nobody_for_ever() {
    let server = RedisServer::start();
    let (pool, _) = pools(&server).await;
    let held = polled_once(&pool).await;
    let neighbour = polled_once(&pool).await;
    is_served(&server, &pool, neighbour, "granted to who is not polled").await;
    drop(held);
}

#[tokio::test]
async fn one_at_the_head_of_the_queue_holds_up_nobody_for_ever() {
    let server = RedisServer::start();
    let (pool, other) = pools(&server).await;
    let holder = request(&other).acquire().await.unwrap();
    let mut held = polled_once(&pool).await;
    until("it has its place", CAP, async || {
        assert!(poll_once(held.as_mut()).await.is_none());
        locks::queue(&server, "key").await.len() == 1
    })
    .await;
    for _ in 0..3 {
        tokio::task::yield_now().await;
        assert!(poll_once(held.as_mut()).await.is_none());
    }
    let neighbour = polled_once(&pool).await;
    holder.release().await.unwrap();
    is_served(&server, &pool, neighbour, "offered to who is not polled").await;
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn on_memory_one_at_the_head_holds_up_nobody_for_ever() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let holder = request(&pool).acquire().await.unwrap();
    let held = polled_once(&pool).await;
    let neighbour = tokio::spawn(request(&pool).acquire());
    tokio::task::yield_now().await;
    holder.release().await.unwrap();
    let begun = tokio::time::Instant::now();
    let served = neighbour.await.unwrap();
    assert!(served.is_ok(), "{served:?}");
    assert!(
        begun.elapsed() <= Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    drop(held);
}

/// One in the middle holds up those behind it when its turn comes, and no earlier.
#[tokio::test(start_paused = true)]
async fn on_memory_one_in_the_middle_holds_up_nobody_for_ever() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let holder = request(&pool).acquire().await.unwrap();
    let turn = |pool: LockPool| async move {
        let guard = request(&pool).acquire().await.unwrap();
        guard.release().await.unwrap();
    };
    let before = tokio::spawn(turn(pool.clone()));
    tokio::task::yield_now().await;
    let held = polled_once(&pool).await;
    let behind = tokio::spawn(turn(pool.clone()));
    tokio::task::yield_now().await;
    let begun = tokio::time::Instant::now();
    holder.release().await.unwrap();
    before.await.unwrap();
    assert!(begun.elapsed() < Duration::from_millis(100));
    behind.await.unwrap();
    assert!(
        begun.elapsed() <= Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
    drop(held);
}

/// All in one task, polled whenever any of them was woken: each has a turn, one at a time.
#[tokio::test]
async fn siblings_in_one_task_all_get_their_turn() {
    let server = RedisServer::start();
    let (pool, other) = pools(&server).await;
    let holder = request(&other).acquire().await.unwrap();
    let turn = async |number: usize| {
        let guard = request(&pool).acquire().await.unwrap();
        tokio::task::yield_now().await;
        guard.release().await.unwrap();
        number
    };
    let mut order = Vec::new();
    let unordered = async {
        let mut siblings: FuturesUnordered<_> = (0..10).map(turn).collect();
        while let Some(number) = siblings.next().await {
            order.push(number);
        }
    };
    let all = Box::pin(async {
        tokio::join!(unordered, turn(10), turn(11), async {
            locks::until_queued(&server, "key", 1, CAP).await;
            holder.release().await.unwrap();
        })
    });
    assert!(within(CAP, all).await.is_some(), "only {order:?}");
    order.sort_unstable();
    assert_eq!(order, (0..10).collect::<Vec<_>>());
}
