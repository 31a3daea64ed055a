//! Several keys at once: one is lost or late while the others are held, waited for or extended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dlock_harness::{Action, until, wait};
use dlock_runtime::{LockGuard, LockPool, LockRequest, LostCause};
use dlock_tests::locks;
use dlock_tests::recorded::{lines, record};

use crate::body::lost;
use crate::lab::{CAP, LONG, Lab, calls, requests};
use crate::waiters::{WAIT, Waiter, turn, waits};

fn both(pool: &LockPool) -> LockRequest {
    pool.lock_all(["a", "b"]).ttl(LONG).wait(WAIT)
}

impl Lab {
    /// A waiter stands in the queue of this key.
    async fn until_waited_for(&self, key: &str) {
        locks::until_queued(&self.server, key, 1, CAP).await;
    }

    /// A pool that waits for answers that are held back, or late on a busy machine.
    async fn patient(&self) -> LockPool {
        self.pool_of(self.config().command_timeout(CAP)).await
    }
}

#[tokio::test]
async fn of_several_of_which_one_is_lost_none_is_prolonged_or_downgraded() {
    let lab = Lab::new();
    let (pool, direct) = (lab.patient().await, lab.direct().await);
    let held = both(&pool).write().acquire().await.unwrap();
    lab.server.cmd(&["DEL", "lock:b"]).await;
    let second = held.parts().nth(1).unwrap();
    assert_eq!(lost(second.verify().await), (LostCause::Gone, false));
    assert_eq!(lost(held.extend(LONG * 4).await), (LostCause::Gone, false));
    let left = lab.server.pttl("lock:a").await;
    assert!(left <= 30_000, "a was prolonged to {left} ms");
    assert_eq!(lost(held.downgrade().await), (LostCause::Gone, false));
    let reader = direct.lock("a").read().try_acquire().await.unwrap();
    assert!(reader.is_none(), "a was downgraded");
}

/// The lost one has another holder by now, so no body begins with the rest.
#[tokio::test]
async fn one_that_is_lost_while_the_next_is_waited_for_is_asked_for_again() {
    let lab = Lab::new();
    let (pool, direct) = (lab.patient().await, lab.direct().await);
    let last = direct.lock("b").ttl(LONG).acquire().await.unwrap();
    // A third of it is less than the cap, and the whole is more.
    let waiter = waits(both(&pool).ttl(LONG / 2));
    lab.until_waited_for("b").await;
    lab.server.cmd(&["DEL", "lock:a"]).await;
    let rival = direct.lock("a").ttl(LONG).acquire().await.unwrap();
    lab.until_waited_for("a").await;
    last.release().await.unwrap();
    rival.verify().await.unwrap();
    rival.release().await.unwrap();
    turn(waiter).await.guard.verify().await.unwrap();
}

/// The watchdog has noticed the loss, and less than a tenth of the ttl has passed, so nothing has
/// to be extended before a body.
#[tokio::test]
async fn no_body_begins_under_one_that_was_lost_while_the_next_was_waited_for() {
    record();
    let lab = Lab::new();
    let (pool, direct) = (lab.patient().await, lab.direct().await);
    let last = direct.lock("never:b").ttl(LONG).acquire().await.unwrap();
    let request = pool.lock_all(["never:a", "never:b"]).ttl(LONG * 10);
    let request = request.renew_every(Duration::from_millis(50)).wait(WAIT);
    let begun = Arc::new(AtomicBool::new(false));
    let begins = begun.clone();
    let body = async move |_: &LockGuard| begins.store(true, Ordering::SeqCst);
    let run = tokio::spawn(async move { request.run(body).await });
    lab.until_waited_for("never:b").await;
    lab.server.cmd(&["DEL", "lock:never:a"]).await;
    let is_told = async || !lines(&["lost a lock", "\"never:a\""]).is_empty();
    until("its loss is told", CAP, is_told).await;
    let rival = direct.lock("never:a").ttl(LONG).acquire().await.unwrap();
    last.release().await.unwrap();
    lab.until_waited_for("never:a").await;
    assert!(!begun.load(Ordering::SeqCst), "beside another holder");
    rival.release().await.unwrap();
    run.await.unwrap().unwrap();
    assert!(begun.load(Ordering::SeqCst), "in its turn");
}

/// Nothing was created, so a release of each key would be sent in vain; and the one command has named
/// the holder.
#[tokio::test]
async fn a_try_that_took_none_leaves_nothing_to_clean_up() {
    let lab = Lab::new();
    let (pool, direct) = (lab.patient().await, lab.direct().await);
    let held = direct.lock("a").ttl(LONG).acquire().await.unwrap();
    let monitor = lab.server.monitor();
    assert!(both(&pool).try_acquire().await.unwrap().is_none());
    let lines = monitor.settled().await;
    let count = |operation| lines.iter().filter(|it| calls(it, operation)).count();
    assert_eq!((count("acquire_all"), count("acquire")), (1, 0));
    assert_eq!((count("cancel"), count("release")), (0, 0));
    held.verify().await.unwrap();
}

/// Both keys are had in turn, so the server keeps them for 3 s at first.
async fn in_turn(lab: &Lab, direct: &LockPool, request: LockRequest) -> Waiter {
    let hold = async |key: &str| direct.lock(key).ttl(LONG).acquire().await.unwrap();
    let (first, last) = (hold("a").await, hold("b").await);
    let waiter = waits(request);
    for (key, held) in [("a", first), ("b", last)] {
        lab.until_waited_for(key).await;
        held.release().await.unwrap();
    }
    waiter
}

/// Counterexample K14, for each key.
#[tokio::test]
async fn they_begin_only_when_the_server_keeps_every_key_for_its_min_hold() {
    let lab = Lab::new();
    let (pool, direct) = (lab.patient().await, lab.direct().await);
    let confirming = lab.proxy.on(requests("renew").every(), Action::Hold);
    let waiter = in_turn(&lab, &direct, both(&pool).min_hold(LONG)).await;
    confirming.seen().await;
    wait::pause(Duration::from_millis(100)).await;
    assert!(!waiter.is_finished(), "nothing was promised yet");
    lab.proxy.clear_triggers();
    lab.proxy.release_held();
    let turn = turn(waiter).await;
    for part in turn.guard.parts() {
        let left = lab.server.pttl(part.key().as_str()).await;
        assert!(left > 20_000, "{} ends in {left} ms", part.key());
    }
}
