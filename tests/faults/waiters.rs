//! Waiters: tasks and processes that queue for the item, and their entries on the server.

use std::time::{Duration, Instant};

use dlock_harness::{Action, Matcher, Trigger, until, wait};
use dlock_runtime::{LockGuard, LockPool, LockRequest};
use dlock_tests::locks;
use tokio::task::JoinHandle;

use crate::lab::{CAP, ITEM, LONG, Lab, ON_SERVER, is_held, requests};

/// The item's queue on the server by order of arrival, and its heartbeats.
pub(crate) const W: &str = "lock:@w:{lock:item}";
pub(crate) const A: &str = "lock:@a:{lock:item}";

/// How long a granted lock counts until its waiter has confirmed it.
pub(crate) const CLAIM: Duration = Duration::from_secs(3);

/// A waiter that has been silent for this long is skipped.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(3500);

/// The longest pause between two polls of a waiter that receives pushes: a second and a tenth.
pub(crate) const POLL: Duration = Duration::from_millis(1100);

/// Well before a claim ends: a lock that is had by then was neither waited out nor, while polls are
/// held back, polled for.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(2);

/// Longer than any test waits; only a bug reaches it.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

/// A waiter's turn with the lock.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) at: Instant,
    pub(crate) guard: LockGuard,
}

pub(crate) type Waiter = JoinHandle<Turn>;

/// A request for the item, with a lease that no test waits out.
pub(crate) fn item(pool: &LockPool) -> LockRequest {
    pool.lock(ITEM).ttl(LONG).wait(WAIT)
}

/// Spawns a task that waits for its turn and then holds the lock.
pub(crate) fn waits(lock: LockRequest) -> Waiter {
    tokio::spawn(async move {
        let guard = lock.acquire().await.unwrap();
        let at = Instant::now();
        Turn { at, guard }
    })
}

/// The turn, which has to come.
pub(crate) async fn turn(waiter: Waiter) -> Turn {
    let turn = wait::within(CAP, waiter).await;
    turn.expect("it gets its turn").unwrap()
}

/// The waiter has what the holder releases by a push, and keeps it.
pub(crate) async fn is_pushed(lab: &Lab, holder: LockGuard, waiter: Waiter) -> LockGuard {
    lab.no_polls();
    let freed = Instant::now();
    holder.release().await.unwrap();
    let turn = turn(waiter).await;
    let took = turn.at - freed;
    assert!(took < wait::scaled(AT_ONCE), "took {took:?}");
    lab.all_passes();
    lab.stays(&turn.guard).await;
    turn.guard
}

/// A server behind a proxy, and two pools: one bypasses the proxy and holds the item, a waiter of
/// the other, which goes through it, stands in the queue.
pub(crate) async fn one_waits() -> (Lab, LockPool, LockPool, LockGuard, Waiter) {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let waiter = lab.queued(&pool).await;
    (lab, pool, direct, holder, waiter)
}

impl Lab {
    /// A waiter for the item over this pool, once it stands in the queue.
    pub(crate) async fn queued(&self, pool: &LockPool) -> Waiter {
        let before = self.places().await.len();
        let waiter = waits(item(pool));
        self.until_queued(before + 1).await;
        waiter
    }

    /// The entries of the item's queue, in order.
    pub(crate) async fn places(&self) -> Vec<String> {
        locks::queue(&self.server, ITEM).await
    }

    pub(crate) async fn until_queued(&self, places: usize) {
        locks::until_queued(&self.server, ITEM, places, CAP).await;
    }

    /// The channel on which the first in the queue is told of its grant.
    pub(crate) async fn channel(&self) -> String {
        let places = self.places().await;
        let address = places.first().and_then(|place| place.split('|').nth(3));
        let (_, channel) = address
            .and_then(|it| it.split_once(';'))
            .expect("somebody waits");
        channel.to_owned()
    }

    /// From now on no poll reaches the server: a waiter can learn of its grant only by push.
    pub(crate) fn no_polls(&self) -> Trigger {
        self.proxy.on(requests("poll").every(), Action::Hold)
    }

    /// Grants are published, but never arrive.
    pub(crate) fn no_pushes(&self) -> Trigger {
        self.proxy.on(grants().every(), Action::LoseMessage)
    }

    /// Lets everything pass again.
    pub(crate) fn all_passes(&self) {
        self.proxy.clear_triggers();
        self.proxy.release_held();
    }

    /// The lock that this guard holds is the guard's on the server too.
    pub(crate) async fn is_its(&self, guard: &LockGuard) {
        assert!(guard.is_held());
        is_held(guard).await;
    }

    /// Waits until only keys are left that end by themselves.
    pub(crate) async fn until_at_rest(&self) {
        until("at rest", CAP, async || {
            let mut at_rest = true;
            for key in self.locks().await {
                at_rest &= key != ON_SERVER && self.server.pttl(&key).await != -1;
            }
            at_rest && self.places().await.is_empty()
        })
        .await;
    }
}

/// The messages that tell of a grant of the item.
pub(crate) fn grants() -> Matcher {
    Matcher::any().containing("@grant:").containing(ON_SERVER)
}
