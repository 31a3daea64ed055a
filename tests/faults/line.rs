//! Those who wait: tasks and processes that queue for the item, and what the server has of them.

use std::time::{Duration, Instant};

use dlock_harness::{Action, Matcher, Trigger, until, wait};
use dlock_runtime::{LockGuard, LockPool, LockRequest};
use tokio::task::JoinHandle;

use crate::lab::{CAP, ITEM, LONG, Lab, ON_SERVER, is_held, requests};

/// The item's queue on the server: by arrival, and by sign of life.
pub(crate) const W: &str = "lock:@w:{lock:item}";
pub(crate) const A: &str = "lock:@a:{lock:item}";

/// What a granted lock is worth until its waiter has confirmed that it runs.
pub(crate) const CLAIM: Duration = Duration::from_secs(3);

/// A waiter that has been silent for so long is passed over.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(3500);

/// The longest pause between two polls of a waiter that hears pushes: a second and a tenth.
pub(crate) const POLL: Duration = Duration::from_millis(1100);

/// Well before a claim ends: what is had by then was neither waited out nor, while polls are held back, asked for.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(2);

/// Longer than any test waits; a bug ends by it.
pub(crate) const WAIT: Duration = Duration::from_secs(60);

/// Somebody's turn.
#[derive(Debug)]
pub(crate) struct Turn {
    pub(crate) at: Instant,
    pub(crate) guard: LockGuard,
}

pub(crate) type Waiter = JoinHandle<Turn>;

/// The item, with a lease that no test waits out.
pub(crate) fn item(pool: &LockPool) -> LockRequest {
    pool.lock(ITEM).ttl(LONG).wait(WAIT)
}

/// A task that waits for its turn and holds it then.
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

/// A server behind a proxy, a pool that comes through it and one that does not; this one holds the item, and one of the other
/// stands in the queue.
pub(crate) async fn one_waits() -> (Lab, LockPool, LockPool, LockGuard, Waiter) {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let waiter = lab.queued(&pool).await;
    (lab, pool, direct, holder, waiter)
}

impl Lab {
    /// Somebody who waits for the item over this pool, and stands in the queue.
    pub(crate) async fn queued(&self, pool: &LockPool) -> Waiter {
        let before = self.places().await.len();
        let waiter = waits(item(pool));
        self.until_queued(before + 1).await;
        waiter
    }

    /// The places in the item's queue, in their order.
    pub(crate) async fn places(&self) -> Vec<String> {
        self.server.ask(&["ZRANGE", W, "0", "-1"]).await
    }

    pub(crate) async fn until_queued(&self, places: usize) {
        until("they stand in the queue", CAP, async || {
            self.places().await.len() == places
        })
        .await;
    }

    /// The channel to which the first in the queue is told of its grant.
    pub(crate) async fn channel(&self) -> String {
        let places = self.places().await;
        let address = places.first().and_then(|place| place.split('|').nth(3));
        let (_, channel) = address
            .and_then(|it| it.split_once(';'))
            .expect("somebody waits");
        channel.to_owned()
    }

    /// From now on no poll reaches the server: what a waiter hears now, it was told.
    pub(crate) fn no_polls(&self) -> Trigger {
        self.proxy.on(requests("poll").every(), Action::Hold)
    }

    /// Grants are told, but never arrive.
    pub(crate) fn no_pushes(&self) -> Trigger {
        self.proxy.on(grants().every(), Action::LoseMessage)
    }

    /// Everything passes again.
    pub(crate) fn all_passes(&self) {
        self.proxy.clear_triggers();
        self.proxy.release_held();
    }

    /// Whoever holds the lock by this guard holds it on the server too.
    pub(crate) async fn is_its(&self, guard: &LockGuard) {
        assert!(guard.is_held());
        is_held(guard).await;
    }

    /// Nothing is left but what ends by itself.
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
