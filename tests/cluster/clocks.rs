//! Masters whose clocks differ: one is 15 s ahead, one 15 s behind.

use std::time::{Duration, Instant};

use dlock_harness::{Clocks, Cluster, wait};
use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest, Wait};
use dlock_tests::{KINDS, of_kind};
use futures_util::future::join_all;
use tokio::task::JoinHandle;

use crate::{pool, tag_at};

const AHEAD: usize = 0;
const BEHIND: usize = 1;

const TTL: Duration = Duration::from_secs(3);

/// What a loaded machine adds.
const SLACK: Duration = Duration::from_secs(2);

/// Each kind with one that it excludes.
fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    std::iter::once(("x", "x")).chain(KINDS)
}

async fn cluster() -> (Cluster, Clocks) {
    let clocks = Clocks::new(3);
    clocks[AHEAD].set(15);
    clocks[BEHIND].set(-15);
    (Cluster::start_as(3, |nth| clocks.server(nth)).await, clocks)
}

fn request(pool: &LockPool, key: &str, kind: &str) -> LockRequest {
    of_kind(pool.lock(key).ttl(TTL), kind)
}

#[tokio::test]
async fn locks_of_every_kind_work_at_each_master() {
    let (cluster, _clocks) = cluster().await;
    let [one, two] = [pool(&cluster).await, pool(&cluster).await];
    let mut checks = Vec::new();
    for node in 0..3 {
        let tag = tag_at(&cluster, node).await;
        for (kind, other) in kinds() {
            let (one, two, key) = (&one, &two, format!("{{{tag}}}:{kind}"));
            checks.push(async move {
                let mut fence = None;
                for _ in 0..2 {
                    let held = request(one, &key, kind).renew().acquire().await.unwrap();
                    let first = held.fence();
                    assert!(fence < Some(first), "{key}");
                    tokio::time::sleep(TTL + TTL / 4).await;
                    held.verify().await.unwrap();
                    let busy = request(two, &key, other).wait(Duration::ZERO);
                    let busy = busy.acquire().await.unwrap_err();
                    assert!(matches!(busy, LockError::Busy { .. }), "{key}: {busy:?}");
                    let waiter = request(two, &key, other).wait(Wait::Forever);
                    let waiter = tokio::spawn(waiter.acquire());
                    held.release().await.unwrap();
                    let next = waiter.await.unwrap().unwrap();
                    assert!(next.fence() > first, "{key}");
                    fence = Some(next.fence());
                    next.release().await.unwrap();
                }
            });
        }
    }
    join_all(checks).await;
}

/// A lock that is held, and a request for one that it excludes, from another pool.
struct Held {
    key: String,
    other: (LockPool, &'static str),
    begun: Instant,
    guard: LockGuard,
}

impl Held {
    async fn take(
        pools: &[LockPool; 2],
        key: String,
        kinds: (&str, &'static str),
        renewed: bool,
    ) -> Self {
        let request = request(&pools[0], &key, kinds.0);
        let request = if renewed { request.renew() } else { request };
        Self {
            key,
            other: (pools[1].clone(), kinds.1),
            begun: Instant::now(),
            guard: request.acquire().await.unwrap(),
        }
    }

    fn other(&self) -> LockRequest {
        let (pool, kind) = &self.other;
        request(pool, &self.key, kind).wait(Wait::Forever)
    }

    /// It has moved with the time that it had left.
    async fn ends_in_its_time(self) {
        let (key, fence) = (&self.key, self.guard.fence());
        let verified = self.guard.verify().await;
        assert!(
            verified.is_ok() || self.begun.elapsed() > TTL * 9 / 10,
            "{key}: {verified:?}"
        );
        let next = self.other().acquire().await.unwrap();
        let took = self.begun.elapsed();
        assert!(!self.guard.is_held(), "{key}: two hold it");
        assert!(took < TTL + wait::scaled(SLACK), "{key}: {took:?}");
        assert!(next.fence() > fence, "{key}");
        next.release().await.unwrap();
    }

    /// It goes on for as long as it is renewed. Who waits since before the move gets it then.
    async fn goes_on(self, waiter: JoinHandle<Result<LockGuard, LockError>>) {
        let (key, fence) = (&self.key, self.guard.fence());
        tokio::time::sleep(TTL + TTL / 4).await;
        self.guard.verify().await.unwrap();
        let busy = self.other().wait(Duration::ZERO).acquire().await;
        assert!(
            matches!(busy, Err(LockError::Busy { .. })),
            "{key}: {busy:?}"
        );
        assert!(!waiter.is_finished(), "{key}: two hold it");
        self.guard.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        assert!(next.fence() > fence, "{key}");
        next.release().await.unwrap();
    }

    /// By the new clock its time is over. The holder learns it at the next question, and the
    /// resource from the fence.
    async fn ends_at_once(self) {
        let (key, fence) = (&self.key, self.guard.fence());
        let next = self.other().acquire().await.unwrap();
        assert!(next.fence() > fence, "{key}");
        let lost = self.guard.verify().await;
        assert!(
            matches!(lost, Err(LockError::Lost { .. })),
            "{key}: {lost:?}"
        );
        next.verify().await.unwrap();
        next.release().await.unwrap();
    }
}

/// A slot moves from the clock that is ahead to the one that is behind, and back.
#[tokio::test]
async fn what_is_held_moves_to_another_clock() {
    let (cluster, _clocks) = cluster().await;
    let pools = [pool(&cluster).await, pool(&cluster).await];
    let tag = tag_at(&cluster, AHEAD).await;
    let slot = cluster.slot(&tag).await;
    for to in [BEHIND, AHEAD] {
        let (mut held, mut waiters) = (Vec::new(), Vec::new());
        for kinds in kinds() {
            for renewed in [false, true] {
                let key = format!("{{{tag}}}:{}:{renewed}", kinds.0);
                let taken = Held::take(&pools, key, kinds, renewed).await;
                waiters.extend(renewed.then(|| tokio::spawn(taken.other().acquire())));
                held.push((kinds.0, renewed, taken));
            }
        }
        let mut waiters = waiters.into_iter();
        cluster.migrate(slot, to, async || {}).await;
        let checks = held.into_iter().map(|(kind, renewed, it)| {
            let waiter = if renewed { waiters.next() } else { None };
            async move {
                let is_shared = !["x", "fair"].contains(&kind);
                match waiter {
                    Some(waiter) if is_shared && to == AHEAD => {
                        waiter.abort();
                        it.ends_at_once().await;
                    }
                    Some(waiter) => it.goes_on(waiter).await,
                    None if is_shared && to == AHEAD => it.ends_at_once().await,
                    None => it.ends_in_its_time().await,
                }
            }
        });
        join_all(checks).await;
    }
}
