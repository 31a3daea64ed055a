//! A body of five ttls keeps its lock, whatever blocks its executor or breaks its connections.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use dlock_harness::{Action, until, wait};
use dlock_runtime::{LockGuard, Released};

use crate::lab::{CAP, ITEM, Lab, TTL, requests};
use crate::observer::Onlooker;

async fn nothing(_: &Lab) {}

/// Runs a body of five ttls that blocks its executor, while another thread disturbs and watches.
async fn keeps(disturb: impl AsyncFn(&Lab) + Send + 'static) {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let locked = pool
        .lock(ITEM)
        .ttl(TTL)
        .renew()
        .run(async |lock: &LockGuard| {
            let onlooker = Onlooker::start(&lab, disturb);
            thread::sleep(TTL * 5);
            onlooker.end();
            lock.remaining()
        });
    assert!(
        locked.await.unwrap() > TTL / 3,
        "the last renewal was long ago"
    );
    lab.until_free().await;
}

#[tokio::test(flavor = "current_thread")]
async fn a_blocked_current_thread_runtime() {
    keeps(nothing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_blocked_runtime_of_one_worker() {
    keeps(nothing).await;
}

#[tokio::test]
async fn a_server_that_forgets_its_scripts_all_the_time() {
    keeps(async |lab: &Lab| drop(lab.server.cmd(&["SCRIPT", "FLUSH"]).await)).await;
}

#[tokio::test]
async fn a_server_that_kills_its_connections_all_the_time() {
    keeps(async |lab: &Lab| drop(lab.server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await))
        .await;
}

#[tokio::test]
async fn a_server_that_is_out_of_memory() {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(TTL).renew().acquire().await.unwrap();
    lab.server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let onlooker = Onlooker::start(&lab, nothing);
    wait::pause(TTL * 3).await;
    onlooker.end();
    assert!(guard.is_held());
    assert_eq!(guard.release().await.unwrap(), Released::Freed);
    assert!(lab.locks().await.is_empty());
}

/// One renewal is lost, in each way in which it can be.
#[tokio::test]
async fn a_renewal_that_is_lost() {
    for fault in [
        Action::CutBefore,
        Action::CutInside(40),
        Action::CutAfter,
        Action::CutReply(2),
    ] {
        survives(TTL, fault).await;
    }
}

/// The wire swallows one renewal; when it works again, the connection is reset.
#[tokio::test]
async fn a_renewal_that_is_swallowed() {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let renewing = lab.proxy.on(requests("renew").every(), Action::Signal);
    let locked = pool.lock(ITEM).ttl(TTL).renew().run(async |_| {
        let onlooker = Onlooker::start(&lab, nothing);
        until("the first", CAP, async || renewing.fired() >= 1).await;
        lab.proxy.drop_requests();
        until("the swallowed", CAP, async || renewing.fired() >= 2).await;
        lab.proxy.pass();
        tokio::time::sleep(TTL * 2).await;
        onlooker.end();
    });
    locked.await.unwrap();
    lab.until_free().await;
}

/// The watchdog's connection goes silent: it takes two timeouts to notice, and the lease lasts that
/// long.
#[tokio::test]
async fn a_renewal_that_is_never_answered() {
    for fault in [Action::Hold, Action::HoldReply] {
        survives(Duration::from_secs(4), fault).await;
    }
}

async fn survives(ttl: Duration, fault: Action) {
    let lab = Arc::new(Lab::new());
    let pool = lab.pool().await;
    let breaking = lab.proxy.on(requests("renew").nth(2), fault);
    let locked = pool.lock(ITEM).ttl(ttl).renew().run(async |_| {
        let onlooker = Onlooker::start(&lab, nothing);
        tokio::time::sleep(ttl * 5 / 2).await;
        onlooker.end();
    });
    locked
        .await
        .unwrap_or_else(|error| panic!("{fault:?}: {error}"));
    assert_eq!(breaking.fired(), 1, "{fault:?}");
    lab.until_free().await;
}
