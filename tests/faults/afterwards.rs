//! Renewal ends with the guard: what the server saw after the key was given back.

use dlock_harness::{Action, Monitor, wait};
use dlock_runtime::{LockPool, LockRequest, Released};

use crate::lab::{CAP, ITEM, Lab, TTL, deletes_the_item, requests, sha};

fn lock(pool: &LockPool) -> LockRequest {
    pool.lock(ITEM).ttl(TTL).renew()
}

/// Nothing is renewed after the item's last `DEL`, for several periods.
async fn nothing_follows(lab: &Lab, monitor: &Monitor) {
    lab.until_free().await;
    wait::pause(TTL * 2).await; // six periods
    let lines = monitor.settled().await;
    let freed = lines
        .iter()
        .rposition(|line| deletes_the_item(line))
        .expect("it was given back");
    let renew = sha("renew");
    let after: Vec<_> = lines[freed..]
        .iter()
        .filter(|line| line.contains(&renew))
        .collect();
    assert!(after.is_empty(), "renewed after the release: {after:?}");
}

/// A renewal is on its way when the guard is released: the release comes after it.
#[tokio::test]
async fn a_release_during_a_renewal_comes_behind_it() {
    for slow in [Action::Hold, Action::HoldReply] {
        let lab = Lab::new();
        let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
        let monitor = lab.server.monitor();
        let guard = lock(&pool).acquire().await.unwrap();
        let held = lab.proxy.on(requests("renew").nth(2), slow);
        held.seen().await;
        let answering = async {
            tokio::task::yield_now().await; // the release begins first
            lab.proxy.release_held();
        };
        let (released, ()) = tokio::join!(guard.release(), answering);
        assert_eq!(released.unwrap(), Released::Freed, "{slow:?}");
        nothing_follows(&lab, &monitor).await;
    }
}

/// The release was executed, and its answer is lost for many periods.
#[tokio::test]
async fn a_release_without_an_answer_ends_it() {
    let lab = Lab::new();
    let pool = lab.pool_of(lab.config().command_timeout(CAP)).await;
    let monitor = lab.server.monitor();
    let guard = lock(&pool).acquire().await.unwrap();
    let held = lab.proxy.on(requests("release"), Action::HoldReply);
    let looking = async {
        held.seen().await;
        nothing_follows(&lab, &monitor).await;
        lab.proxy.release_held();
    };
    let (released, ()) = tokio::join!(guard.release(), looking);
    assert_eq!(released.unwrap(), Released::Freed);
}
