//! A lease that the server or the wire takes from its holder: the body is stopped, the error says
//! why, and the next holder's fencing token is higher.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlock_harness::{until, until_blocking, wait};
use dlock_runtime::{Fence, LockGuard, LostCause};
use tokio::sync::oneshot;

use crate::body::{Polls, Watched, lost, tick};
use crate::lab::{CAP, ITEM, Lab, ON_SERVER, SLACK, TTL};
use crate::outage::{Outage, tests_of};

/// Runs a body under a renewed lock until `fault` has ended its lease.
async fn lose(lab: &Lab, expected: LostCause, fault: impl AsyncFnOnce()) -> Fence {
    let (pool, polls) = (lab.pool().await, Arc::new(Polls::default()));
    let (tell, told) = oneshot::channel();
    let lock = pool.lock(ITEM).ttl(TTL).renew();
    let locked = lock.run(async |lock: &LockGuard| {
        let body = async {
            tell.send(lock.fence()).unwrap();
            tick().await;
        };
        Watched::new(&polls, body).await;
    });
    let breaking = async {
        let fence = told.await.unwrap();
        fault().await;
        (fence, Instant::now())
    };
    let both = async { tokio::join!(locked, breaking) };
    let (result, (fence, since)) = wait::within(CAP, both)
        .await
        .expect("the body was never stopped");
    assert_eq!(lost(result), (expected, false));
    // The next renewal notices `Gone`, a third of the ttl later; a deadline passes within the ttl.
    let took = since.elapsed();
    assert!(took < wait::scaled(TTL + SLACK), "noticed after {took:?}");
    assert!(polls.all() > 1, "the body ran");
    assert_eq!(polls.late(), 0, "polls begun after the deadline");
    fence
}

/// The next holder's token is higher than the last one's.
async fn next_is_higher(lab: &Lab, last: Fence) {
    let pool = lab.direct().await;
    let guard = pool.lock(ITEM).wait(CAP).acquire().await.unwrap();
    assert!(guard.fence() > last, "{} after {last}", guard.fence());
    guard.release().await.unwrap();
    lab.until_free().await;
}

tests_of! { check:
    a_deleted_key Deleted,
    all_keys_flushed Emptied,
    a_server_that_came_back_empty ServerWithoutData,
    a_server_that_stays_away ServerDead,
    a_server_that_is_stopped ServerStopped,
    a_black_hole BlackHole,
    replies_that_are_lost Mute,
}

async fn check(outage: Outage) {
    let lab = Lab::new();
    let takes = outage.takes_the_lock();
    let cause = if takes {
        LostCause::Gone
    } else {
        LostCause::Deadline
    };
    let fence = lose(&lab, cause, async || outage.begins(&lab).await).await;
    match outage {
        _ if takes => assert!(lab.locks().await.is_empty(), "what was deleted stays so"),
        Outage::ServerDead | Outage::ServerStopped => outage.ends(&lab),
        _ => {} // the next one goes by another wire
    }
    next_is_higher(&lab, fence).await;
}

#[tokio::test]
async fn a_takeover_by_somebody_else() {
    let lab = Lab::new();
    lose(&lab, LostCause::Gone, async || {
        lab.server
            .cmd(&["SET", ON_SERVER, "theirs", "PX", "60000"])
            .await;
    })
    .await;
    assert_eq!(lab.value(ON_SERVER).await.as_deref(), Some("theirs"));
    assert!(
        lab.server.pttl(ON_SERVER).await > 50_000,
        "their lease is theirs"
    );
}

#[tokio::test]
async fn a_value_of_another_type() {
    let lab = Lab::new();
    lose(&lab, LostCause::Gone, async || {
        lab.server.cmd(&["DEL", ON_SERVER]).await;
        lab.server.cmd(&["LPUSH", ON_SERVER, "theirs"]).await;
    })
    .await;
    assert_eq!(lab.server.ask::<u64>(&["LLEN", ON_SERVER]).await, 1);
}

/// Without `renew` no command asks the server before the deadline.
#[tokio::test]
async fn a_deleted_key_without_renewal_is_noticed_at_the_deadline() {
    let lab = Lab::new();
    let (pool, polls) = (lab.pool().await, Arc::new(Polls::default()));
    let locked = pool
        .lock(ITEM)
        .ttl(TTL)
        .run(async |_| Watched::new(&polls, tick()).await);
    let deleting = async {
        until("it is held", CAP, async || !lab.locks().await.is_empty()).await;
        lab.server.cmd(&["DEL", ON_SERVER]).await;
    };
    let (result, ()) = tokio::join!(locked, deleting);
    assert_eq!(lost(result), (LostCause::Deadline, false));
    assert_eq!(polls.late(), 0);
}

/// The loss is known before the body ends: its value is dropped.
#[tokio::test]
async fn a_body_that_ends_after_the_loss_has_finished() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let lock = pool.lock(ITEM).ttl(TTL).renew();
    let result = lock.run(async |lock: &LockGuard| {
        lab.server.cmd(&["DEL", ON_SERVER]).await;
        until_blocking("the loss is known", CAP, || !lock.is_held());
        7
    });
    assert_eq!(lost(result.await), (LostCause::Gone, true));
}

/// A guard from `acquire` is told; the work under it is not stopped.
#[tokio::test]
async fn a_guard_is_told() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(TTL).renew().acquire().await.unwrap();
    let telling = tokio::spawn(guard.lost());
    lab.server.cmd(&["DEL", ON_SERVER]).await;
    let told = wait::within(TTL + SLACK, telling)
        .await
        .expect("told in time");
    assert_eq!(told.unwrap(), LostCause::Gone);
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(lost(guard.verify().await), (LostCause::Gone, false));
    drop(guard);
    assert!(lab.locks().await.is_empty());
}
