//! Which queues are kept while their locks are held.

use std::time::Duration;

use tokio::time::advance;

use crate::client::AcquireRefusal;
use crate::client::queue_key::QueueKey;
use crate::client::queue_table::{LOOKED_AT_MOST, LOOKUPS, QueueTable, SWEEP_AT_LEAST};
use crate::driver::guard::LockGuard;
use crate::driver::pool::LockPool;
use crate::driver::request::LockRequest;
use crate::driver::shared::DriverHost;
use crate::values::error::LockError;
use crate::values::moment::Moment;
use crate::values::token::Token;

const SECOND: Duration = Duration::from_secs(1);

/// So many locks that their queues are swept.
const MANY: usize = 4 * SWEEP_AT_LEAST;

fn numbered(pool: &LockPool, number: usize) -> LockRequest {
    pool.lock(format!("k{number}"))
        .ttl(SECOND * 60)
        .wait(SECOND * 9)
}

/// Takes the locks with these numbers, and lets `pause` pass after each.
async fn taken(
    pool: &LockPool,
    numbers: std::ops::Range<usize>,
    pause: Duration,
) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for number in numbers {
        guards.push(numbered(pool, number).acquire().await.unwrap());
        advance(pause).await;
    }
    guards
}

fn by_key(pool: &LockPool) -> usize {
    pool.core()
        .watchdog()
        .shared()
        .lock()
        .client
        .queues
        .by_key
        .len()
}

/// Spawns a waiter for the first of them.
async fn waits(pool: &LockPool) -> tokio::task::JoinHandle<LockGuard> {
    let request = numbered(pool, 0);
    let waiter = tokio::spawn(async move { request.acquire().await.unwrap() });
    tokio::task::yield_now().await;
    waiter
}

#[tokio::test(start_paused = true)]
async fn the_queues_of_locks_that_are_held_for_long_are_forgotten() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let mut guards = taken(&pool, 0..MANY, Duration::from_millis(1)).await;
    assert!(by_key(&pool) <= SWEEP_AT_LEAST, "{}", by_key(&pool));

    let waiter = waits(&pool).await;
    assert!(!waiter.is_finished());
    let first = guards.swap_remove(0);
    let fence = first.fence();
    first.release().await.unwrap();
    let next = waiter.await.unwrap();
    assert!(next.fence() > fence && next.is_held());
    drop((guards, next));
    assert_eq!(pool.lock("k0").acquire().await.unwrap().hold_count(), 1);
}

/// Among any number of queues, those that are waited at or may be handed on stay.
#[tokio::test(start_paused = true)]
async fn the_queues_of_locks_that_may_be_handed_on_are_kept() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let mut guards = taken(&pool, 0..1000, Duration::ZERO).await;
    assert_eq!(by_key(&pool), 1000);
    let waiter = waits(&pool).await;
    guards.extend(taken(&pool, 1000..3000, Duration::from_micros(1)).await);
    let first = guards.swap_remove(0);
    let fence = first.fence();
    first.release().await.unwrap();
    let handed_on = waiter.await.unwrap();
    assert_eq!(handed_on.fence().get(), fence.get() + 1, "in the same row");
}

/// After a peak, the threshold of the sweep falls again.
#[tokio::test(start_paused = true)]
async fn a_crowd_that_has_gone_leaves_no_room_for_queues_that_nobody_misses() {
    let pool = LockPool::connect("memory://").await.unwrap();
    drop(taken(&pool, 0..MANY, Duration::ZERO).await);
    assert_eq!(by_key(&pool), 0);
    let _guards = taken(&pool, 0..MANY, Duration::from_millis(1)).await;
    assert!(by_key(&pool) <= SWEEP_AT_LEAST, "{}", by_key(&pool));
}

#[tokio::test(start_paused = true)]
async fn a_queue_of_its_own_goes_with_its_waiters() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let mut guards = Vec::new();
    for number in 0..MANY {
        guards.push(numbered(&pool, number).fair().acquire().await.unwrap());
        advance(Duration::from_millis(1)).await;
    }
    assert!(by_key(&pool) <= SWEEP_AT_LEAST, "{}", by_key(&pool));
    let queues_of_their_own = pool
        .core()
        .watchdog()
        .shared()
        .lock()
        .client
        .queues
        .own
        .len();
    assert_eq!(queues_of_their_own, by_key(&pool));
}

/// A push names the key and the token, and whoever may publish can name both, as often as they
/// like. So it costs two lookups, however many wait for the key, each in a queue of its own.
#[tokio::test(start_paused = true)]
async fn a_push_is_looked_up_among_many_waiters_of_a_key_by_its_token() {
    let pool = LockPool::connect("memory://").await.unwrap();
    let holder = numbered(&pool, 0).acquire().await.unwrap();
    let waiters = (0..1000).map(|_| tokio::spawn(numbered(&pool, 0).fair().acquire()));
    let waiters: Vec<_> = waiters.collect();
    tokio::time::sleep(Duration::from_millis(1)).await; // until they all wait
    let state = pool.core().watchdog().shared().lock();
    let keys = &state.client.queues;
    assert_eq!((keys.own.len(), keys.by_key.len()), (1000, 1001));
    let (tokens, key) = (keys.own.keys().copied(), holder.key().as_str());
    let tokens: Vec<_> = tokens.chain([Token::of_test(1)]).collect();
    LOOKUPS.set(0);
    let found = |token| keys.awaits(&key.into(), token).is_some();
    let found = tokens.iter().filter(|token| found(**token)).count();
    assert_eq!(found, 1000, "all but the one that nobody asked with");
    assert!(
        LOOKUPS.get() <= 2 * tokens.len(),
        "{} lookups",
        LOOKUPS.get()
    );
    let elsewhere = keys.awaits(&"lock:another".into(), tokens[0]);
    assert_eq!(elsewhere, None, "the token of another key's");
    drop(state);
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
}

#[test]
fn a_refused_waiter_hears_it() {
    let mut keys = QueueTable::<DriverHost>::default();
    for number in 0..MANY {
        let queue_key = QueueKey::for_all(format!("k{number}").into());
        let queue_state = keys.at(&queue_key, Moment::from_nanos(number as u64));
        queue_state.refused.insert(1, AcquireRefusal::ShutDown);
    }
    assert_eq!(keys.by_key.len(), MANY);
}

/// Which waiters of these kinds are told, behind a holder.
async fn told(holder: &str, kinds: &[&str]) -> Vec<usize> {
    let pool = LockPool::connect("memory://").await.unwrap();
    pool.core().watchdog().shared().lock().client.queues = QueueTable::of_quorum();
    let request = |kind: &str| {
        let request = numbered(&pool, 0);
        match kind {
            "read" => request.read(),
            "write" => request.write(),
            owner => request.reentrant().owner(owner),
        }
    };
    let holder = request(holder).acquire().await.unwrap();
    let elsewhere = numbered(&pool, 1).write().acquire().await.unwrap();
    let waiters: Vec<_> = kinds
        .iter()
        .map(|kind| tokio::spawn(request(kind).acquire()))
        .collect();
    let other = tokio::spawn(numbered(&pool, 1).read().acquire());
    tokio::time::sleep(Duration::from_millis(1)).await; // until they all wait
    let mut state = pool.core().watchdog().shared().lock();
    let key: std::sync::Arc<str> = holder.key().as_str().into();
    let all: Vec<_> = (state.client.queues.own_of_quorum.iter().flatten())
        .filter(|it| *it.key() == key && state.client.queues.by_key[*it].queue.has_waiters())
        .cloned()
        .collect();
    assert_eq!(all.len(), kinds.len());
    let told = state.client.queues.news_for(&key);
    drop(state);
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    other.abort();
    drop(elsewhere);
    let place = |it: &QueueKey| all.iter().position(|own| own == it);
    assert_eq!(place(&told[0]), None, "the shared one");
    told[1..].iter().map(|it| place(it).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_hint_is_for_the_first_those_who_may_hold_with_it_and_a_writer() {
    assert_eq!(told("write", &[]).await, []);
    assert_eq!(told("write", &["write", "read", "write"]).await, [0]);
    // The writer, since a node may keep readers out for it.
    assert_eq!(
        told("write", &["read", "write", "read", "write"]).await,
        [0, 1, 2]
    );
    assert_eq!(told("cid", &["ann", "bob", "ann"]).await, [0, 2]);
    let crowd = told("write", &["read"; 300]).await;
    assert_eq!(crowd, (0..LOOKED_AT_MOST).collect::<Vec<_>>());
}

/// The queue of a waiter that has its lock is dropped from the list when a hint meets it.
#[tokio::test(start_paused = true)]
async fn holders_are_not_in_the_way_of_hints() {
    let pool = LockPool::connect("memory://").await.unwrap();
    pool.core().watchdog().shared().lock().client.queues = QueueTable::of_quorum();
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(numbered(&pool, 0).read().acquire().await.unwrap());
    }
    let writer = tokio::spawn(numbered(&pool, 0).write().acquire());
    tokio::time::sleep(Duration::from_millis(1)).await; // until it waits
    let mut state = pool.core().watchdog().shared().lock();
    let key = readers[0].key().as_str().into();
    assert_eq!(state.client.queues.news_for(&key).len(), 2);
    assert_eq!(state.client.queues.own_of_quorum.as_ref().unwrap().len(), 1);
    drop(state);
    writer.abort();
}

#[tokio::test(start_paused = true)]
async fn no_queue_is_left_to_be_told_of_when_its_waiter_has_gone() {
    let pool = LockPool::connect("memory://").await.unwrap();
    pool.core().watchdog().shared().lock().client.queues = QueueTable::of_quorum();
    for _ in 0..3 {
        let read = numbered(&pool, 0).read().acquire().await.unwrap();
        let busy = numbered(&pool, 0).write().wait(SECOND).acquire().await;
        assert!(matches!(busy, Err(LockError::Busy { .. })));
        read.release().await.unwrap();
    }
    tokio::time::sleep(SECOND).await; // until the last leader has ended
    let state = pool.core().watchdog().shared().lock();
    let own = state.client.queues.own_of_quorum.as_ref().unwrap();
    assert!(own.is_empty() && state.client.queues.by_key.is_empty());
}
