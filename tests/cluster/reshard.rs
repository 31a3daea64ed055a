//! Many slots that move to a node that has joined, and back, while locks of every kind are held,
//! renewed and waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use dlock_harness::{Cluster, until};
use dlock_runtime::{LockGuard, LockPool, Wait};
use dlock_tests::{KINDS, memory, of_kind};
use tokio::task::JoinHandle;

use crate::{CAP, only_counters_are_left, pool};

/// Long enough for a busy machine.
const TTL: Duration = Duration::from_secs(6);

struct Load {
    held: Vec<LockGuard>,
    workers: Vec<JoinHandle<()>>,
    /// How often each lock of the workers changed hands.
    done: Arc<[AtomicU32]>,
    ended: Arc<AtomicBool>,
}

const HELD: usize = 40;
const WANTED: usize = 12;

impl Load {
    /// Locks of every kind that are held, and locks that two tasks of different pools want.
    async fn start(pools: &[LockPool; 2]) -> Self {
        let mut held = Vec::new();
        for number in 0..HELD {
            let request = pools[0].lock(format!("held{number}")).ttl(TTL).renew();
            let (kind, _) = KINDS[number % KINDS.len()];
            held.push(of_kind(request, kind).acquire().await.unwrap());
        }
        let done: Arc<[AtomicU32]> = (0..WANTED).map(|_| AtomicU32::new(0)).collect();
        let ended = Arc::<AtomicBool>::default();
        let mut workers = Vec::new();
        for number in 0..WANTED {
            let inside = Arc::<AtomicU32>::default();
            for pool in pools {
                let (pool, inside) = (pool.clone(), inside.clone());
                let (done, ended) = (done.clone(), ended.clone());
                workers.push(tokio::spawn(async move {
                    while !ended.load(Ordering::Relaxed) {
                        let request = pool.lock(format!("wanted{number}")).ttl(TTL).renew();
                        let guard = request.wait(Wait::Forever).acquire().await.unwrap();
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        done[number].fetch_add(1, Ordering::SeqCst);
                        let _ = guard.release().await; // or by the watchdog
                    }
                }));
            }
        }
        Self {
            held,
            workers,
            done,
            ended,
        }
    }

    /// Waits until each lock that is wanted has changed hands, and looks at those held.
    async fn goes_on(&self) {
        let counts = || self.done.iter().map(|it| it.load(Ordering::SeqCst));
        let before: Vec<u32> = counts().collect();
        until("each has changed hands", CAP, async || {
            counts().zip(&before).all(|(now, before)| now > before + 2)
        })
        .await;
        for guard in &self.held {
            // A node that was killed a moment ago may be asked first.
            until("it is held", CAP, async || guard.verify().await.is_ok()).await;
        }
    }

    async fn end(self) {
        self.ended.store(true, Ordering::Relaxed);
        for worker in self.workers {
            tokio::time::timeout(CAP, worker).await.unwrap().unwrap();
        }
        for guard in self.held {
            guard.release().await.unwrap();
        }
    }
}

/// The slots of all these locks, and as many besides.
async fn slots(cluster: &Cluster, besides: u16) -> Vec<u16> {
    let held = (0..HELD).map(|number| format!("lock:held{number}"));
    let wanted = (0..WANTED).map(|number| format!("lock:wanted{number}"));
    let mut slots = Vec::new();
    for key in held.chain(wanted) {
        slots.push(cluster.slot(&key).await);
    }
    slots.extend((0..besides).map(|it| it * 50));
    slots.sort_unstable();
    slots.dedup();
    slots
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_joins_takes_slots_under_load_and_leaves() {
    let cluster = Cluster::start_with_an_empty_node(3).await;
    let pools = [pool(&cluster).await, pool(&cluster).await];
    let load = Load::start(&pools).await;
    let slots = slots(&cluster, 50).await;
    let mut of_each = vec![Vec::new(); 3];
    for slot in &slots {
        of_each[cluster.owner(*slot).await].push(*slot);
    }
    cluster.reshard(&slots, 3).await;
    tokio::time::sleep(TTL).await; // what is held now has been renewed since
    for guard in &load.held {
        guard.verify().await.unwrap();
    }
    load.goes_on().await;
    for (node, slots) in of_each.iter().enumerate() {
        cluster.reshard(slots, node).await;
    }
    cluster.nodes[3].kill9(); // it has no slot any more
    load.goes_on().await;
    load.end().await;
}

/// Memory is that of this process, which has to be quiet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "minutes: tests/run.sh --all"]
async fn fifty_reshards_leave_nothing() {
    let cluster = Cluster::start(3).await;
    let pools = [pool(&cluster).await, pool(&cluster).await];
    let load = Load::start(&pools).await;
    let slots = slots(&cluster, 50).await;
    let mut seen = Vec::new();
    for round in 0..50 {
        cluster.reshard(&slots, round % 3).await;
        load.goes_on().await;
        let connections: usize = pools
            .iter()
            .map(|it| it.status().unwrap().connections)
            .sum();
        seen.push((connections, memory()));
        println!("{round}: {connections} connections, {} KiB", memory() >> 10);
    }
    let (early, late) = (seen[12], seen[49]);
    assert!(late.0 <= early.0, "{seen:?}");
    assert!(late.1 < early.1 + (4 << 20), "{seen:?}");
    load.end().await;
    only_counters_are_left(&cluster).await;
}
