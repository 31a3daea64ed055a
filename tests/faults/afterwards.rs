//! Renewal ends with the guard: what the server saw after the key was given back.

use dlock_harness::{Action, Monitor, until, wait};
use dlock_runtime::{LockPool, LockRequest, Released};

use crate::lab::{CAP, ITEM, Lab, TTL, deletes_the_item, requests, sha};

fn lock(pool: &LockPool) -> LockRequest {
    pool.lock(ITEM).ttl(TTL).renew()
}

async fn renewals(monitor: &Monitor, at_least: usize) {
    let renew = sha("renew");
    until("renewals", CAP, async || {
        monitor
            .lines()
            .iter()
            .filter(|line| line.contains(&renew))
            .count()
            >= at_least
    })
    .await;
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

#[tokio::test]
async fn a_release_ends_it() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let monitor = lab.server.monitor();
    let guard = lock(&pool).acquire().await.unwrap();
    renewals(&monitor, 2).await;
    guard.release().await.unwrap();
    nothing_follows(&lab, &monitor).await;
}

#[tokio::test]
async fn a_drop_ends_it() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let monitor = lab.server.monitor();
    let guard = lock(&pool).acquire().await.unwrap();
    renewals(&monitor, 2).await;
    drop(guard);
    nothing_follows(&lab, &monitor).await;
}

#[tokio::test]
async fn the_end_of_a_body_ends_it() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let monitor = lab.server.monitor();
    lock(&pool)
        .run(async |_| renewals(&monitor, 2).await)
        .await
        .unwrap();
    nothing_follows(&lab, &monitor).await;
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

/// Released at every phase of the renewal's period, from fresh to overdue.
#[tokio::test]
async fn a_release_at_any_phase_ends_it() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let monitor = lab.server.monitor();
    for phase in 0..12 {
        let guard = lock(&pool).acquire().await.unwrap();
        wait::pause(TTL * phase / 30).await;
        drop(guard.release().await); // answered in time or not
    }
    nothing_follows(&lab, &monitor).await;
}
