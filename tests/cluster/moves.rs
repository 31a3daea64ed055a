//! Slots that move to another node while locks are held, renewed and waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use dlock_harness::{Cluster, until};
use dlock_runtime::{Config, LockError, LockGuard, LockPool, LockRequest, Wait};
use dlock_tests::works;
use tokio::task::JoinHandle;

use crate::{CAP, only_counters_are_left, pool};

const KEY: &str = "k";
const NAME: &str = "lock:k";

fn request(pool: &LockPool) -> LockRequest {
    let ttl = Duration::from_secs(2);
    pool.lock(KEY).ttl(ttl).renew().wait(Wait::Forever)
}

async fn waiter(pool: &LockPool) -> JoinHandle<LockGuard> {
    let request = request(pool);
    let waiter = tokio::spawn(async move { request.acquire().await.unwrap() });
    until("it waits", CAP, async || {
        pool.status().unwrap().waiting == 1
    })
    .await;
    waiter
}

/// The slot and another node than the one that serves it.
async fn elsewhere(cluster: &Cluster) -> (u16, usize) {
    let slot = cluster.slot(NAME).await;
    (slot, (cluster.owner(slot).await + 1) % 3)
}

/// Longer than the lease: it is renewed at both nodes.
#[tokio::test]
async fn what_is_held_stays_held_when_its_slot_has_moved() {
    let cluster = Cluster::start(3).await;
    let [one, two] = [pool(&cluster).await, pool(&cluster).await];
    let held = request(&one).acquire().await.unwrap();
    let next = waiter(&two).await;
    let (slot, to) = elsewhere(&cluster).await;
    cluster.migrate(slot, to, async || {}).await;
    tokio::time::sleep(Duration::from_secs(4)).await;
    held.verify().await.unwrap();
    let exists: u64 = cluster.nodes[to].ask(&["EXISTS", NAME]).await;
    assert_eq!(exists, 1);
    let fence = held.fence();
    held.release().await.unwrap();
    let next = tokio::time::timeout(CAP, next).await.unwrap().unwrap();
    assert!(next.fence() > fence);
    next.release().await.unwrap();
}

/// Nobody has told this pool.
#[tokio::test]
async fn a_pool_that_knows_the_old_place_is_sent_on() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    request(&pool)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    for _ in 0..3 {
        let (slot, to) = elsewhere(&cluster).await;
        cluster.migrate(slot, to, async || {}).await;
        let guard = request(&pool).acquire().await.unwrap();
        let exists: u64 = cluster.nodes[to].ask(&["EXISTS", NAME]).await;
        assert_eq!(exists, 1);
        guard.release().await.unwrap();
    }
}

/// The old node says late where the slot is, and the new one does not answer: both tries have one
/// `command_timeout` together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_redirect_leaves_the_second_try_the_rest_of_the_time() {
    const TIMEOUT: Duration = Duration::from_secs(3);
    let cluster = Cluster::start(3).await;
    let config = Config::new(cluster.url()).command_timeout(TIMEOUT);
    let pool = LockPool::connect(config).await.unwrap();
    for all in [&["{k}:1"][..], &["{k}:1", "{k}:2"]] {
        let request = || pool.lock_all(all.iter().copied()).wait(Duration::ZERO);
        request().acquire().await.unwrap().release().await.unwrap();
        let slot = cluster.slot("{k}").await;
        let from = cluster.owner(slot).await;
        let to = (from + 1) % 3;
        cluster.migrate(slot, to, async || {}).await;
        cluster.nodes[to].stop_signal();
        cluster.nodes[from].stop_signal();
        let (began, request) = (Instant::now(), request());
        let late = tokio::spawn(async move { request.acquire().await });
        tokio::time::sleep(TIMEOUT * 4 / 5).await;
        assert!(!late.is_finished());
        cluster.nodes[from].cont();
        let error = late.await.unwrap().unwrap_err();
        let took = began.elapsed();
        cluster.nodes[to].cont();
        assert!(matches!(error, LockError::Unavailable { .. }), "{error:?}");
        assert!(took < TIMEOUT * 3 / 2, "{took:?}"); // each its own: 5.4 s
    }
}

/// Half of the keys are at one node, half at the other, for longer than the leases.
#[tokio::test]
async fn renewals_and_releases_go_on_while_a_slot_is_being_moved() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    let ttl = Duration::from_secs(1);
    let request = |number: u32| {
        let request = pool.lock(format!("{{k}}:{number}")).ttl(ttl).renew();
        match number % 3 {
            0 => request,
            1 => request.read(),
            _ => request.permits(2),
        }
    };
    let mut held = Vec::new();
    for number in 0..9 {
        held.push(request(number).acquire().await.unwrap());
    }
    let slot = cluster.slot("{k}").await;
    let to = (cluster.owner(slot).await + 1) % 3;
    let mut steps = 0;
    cluster
        .migrate(slot, to, async || {
            steps += 1;
            tokio::time::sleep(ttl).await;
            for guard in &held {
                guard.verify().await.unwrap();
            }
            if steps == 5 {
                let exclusive = held.remove(0);
                exclusive.release().await.unwrap();
            }
        })
        .await;
    assert!(steps >= 9, "{steps} steps");
    for guard in held {
        guard.verify().await.unwrap();
        guard.release().await.unwrap();
    }
    let guard = request(0).wait(Duration::ZERO).acquire().await.unwrap();
    guard.release().await.unwrap();
}

/// All locks of a key count up under it, while its slot goes round and round.
#[tokio::test]
async fn nobody_overlaps_while_slots_go_round() {
    let cluster = Cluster::start(3).await;
    let pools = [
        pool(&cluster).await,
        pool(&cluster).await,
        pool(&cluster).await,
    ];
    let inside = Arc::<AtomicU32>::default();
    let (done, ended) = (Arc::<AtomicU32>::default(), Arc::<AtomicBool>::default());
    let workers: Vec<_> = (0..12)
        .map(|number| {
            let pool = pools[number % 3].clone();
            let (inside, done, ended) = (inside.clone(), done.clone(), ended.clone());
            tokio::spawn(async move {
                let mut highest = None;
                while !ended.load(Ordering::Relaxed) {
                    let guard = request(&pool).acquire().await.unwrap();
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                    assert!(highest < Some(guard.fence()));
                    highest = Some(guard.fence());
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    done.fetch_add(1, Ordering::Relaxed);
                    let _ = guard.release().await; // or by the watchdog
                }
            })
        })
        .collect();
    for _ in 0..50 {
        let before = done.load(Ordering::Relaxed);
        let (slot, to) = elsewhere(&cluster).await;
        cluster.migrate(slot, to, async || {}).await;
        until("somebody had it since", CAP, async || {
            done.load(Ordering::Relaxed) > before + 3
        })
        .await;
    }
    let connections = pools[0].status().unwrap().connections;
    ended.store(true, Ordering::Relaxed);
    for worker in workers {
        tokio::time::timeout(CAP, worker).await.unwrap().unwrap();
    }
    // One of this runtime and one of the watchdog's to each node, which connects where it cleans up.
    assert!(connections <= 2 * cluster.nodes.len(), "{connections}");
    only_counters_are_left(&cluster).await;
}

/// Without a wait there is no second call by the user.
#[tokio::test]
async fn one_try_is_enough_after_a_move() {
    let cluster = Cluster::start(3).await;
    let pool = pool(&cluster).await;
    let tags = ["{k}:1", "{k}:2"];
    for key in tags {
        works(&pool, key).await.unwrap();
    }
    let slot = cluster.slot("{k}").await;
    let to = (cluster.owner(slot).await + 1) % 3;
    cluster.migrate(slot, to, async || {}).await;
    let one = pool.lock(tags[0]).try_acquire().await.unwrap();
    one.unwrap().release().await.unwrap();
    let to = (to + 1) % 3;
    cluster.migrate(slot, to, async || {}).await;
    let both = pool.lock_all(tags).try_acquire().await.unwrap();
    both.unwrap().release().await.unwrap();
}
