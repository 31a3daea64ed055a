//! What the tasks do: each takes its own lock, holds it for 20 ms, and pauses for 5 ms.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dlock_harness::Cluster;
use dlock_runtime::{LockError, LockPool, Wait};
use tokio::time::sleep;

use crate::Failure;

const TASKS: u32 = 48;
const TTL: Duration = Duration::from_secs(5);
const BODY: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(5);

/// A key for each task, with its slot.
pub(crate) struct Keys(Vec<(String, u16)>);

impl Keys {
    pub(crate) async fn own(cluster: &Cluster) -> Self {
        // Far apart, so that their slots are, and their lines in the picture.
        Self::named(cluster, |task| format!("item:{}", 1277 * task)).await
    }

    pub(crate) async fn tagged(cluster: &Cluster) -> Self {
        Self::named(cluster, |task| format!("{{cart}}:{task}")).await
    }

    async fn named(cluster: &Cluster, name: fn(u32) -> String) -> Self {
        let mut keys = Vec::new();
        for key in (0..TASKS).map(name) {
            let slot = cluster.slot(&format!("lock:{key}")).await;
            keys.push((key, slot));
        }
        Self(keys)
    }

    /// Each slot once, in order.
    pub(crate) fn slots(&self) -> Vec<u16> {
        let mut slots: Vec<u16> = self.0.iter().map(|(_, slot)| *slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}

/// A lock that was held.
pub(crate) struct Hold {
    pub(crate) slot: u16,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

/// The holds of all tasks until this is done; times are counted from `begun`.
pub(crate) async fn during(
    pool: &LockPool,
    keys: &Keys,
    begun: Instant,
    done: impl Future<Output = ()>,
) -> Result<Vec<Hold>, Failure> {
    let is_over = Arc::new(AtomicBool::new(false));
    let work = |(key, slot): &(String, u16)| {
        let (pool, is_over) = (pool.clone(), is_over.clone());
        tokio::spawn(work(pool, key.clone(), *slot, begun, is_over))
    };
    let tasks: Vec<_> = keys.0.iter().map(work).collect();
    done.await;
    is_over.store(true, Ordering::Relaxed);
    let mut holds = Vec::new();
    for task in tasks {
        holds.extend(task.await??);
    }
    Ok(holds)
}

async fn work(
    pool: LockPool,
    key: String,
    slot: u16,
    begun: Instant,
    is_over: Arc<AtomicBool>,
) -> Result<Vec<Hold>, LockError> {
    let mut holds = Vec::new();
    while !is_over.load(Ordering::Relaxed) {
        let request = pool.lock(&*key).ttl(TTL).wait(Wait::Forever);
        let guard = request.acquire().await?;
        let from = begun.elapsed();
        sleep(BODY).await;
        let to = begun.elapsed();
        holds.push(Hold { slot, from, to });
        guard.release().await?;
        sleep(PAUSE).await;
    }
    Ok(holds)
}
