//! `min_hold` while the wire fails: the key stays that long from its grant, and no longer; a body
//! that never began keeps nothing.

use std::time::{Duration, Instant};

use dlock_harness::{Action, until, wait};
use dlock_runtime::{LockPool, LockRequest};

use crate::lab::{CAP, LONG, Lab, ON_SERVER, SLACK, SOON, requests};
use crate::waiters::{CLAIM, item, turn, waits};

const MIN_HOLD: Duration = Duration::from_secs(2);

/// How much the two clocks may differ, each rounded to milliseconds.
const ROUNDING: Duration = Duration::from_millis(5);

const FAULTS: [Action; 7] = [
    Action::CutBefore,
    Action::CutInside(1),
    Action::CutInside(60),
    Action::CutAfter,
    Action::CutReply(1),
    Action::Hold,
    Action::HoldReply,
];

fn kept(pool: &LockPool, min_hold: Duration) -> LockRequest {
    item(pool).min_hold(min_hold)
}

/// Whether the item's key is kept without a holder.
async fn is_retired(lab: &Lab) -> bool {
    let value = lab.value(ON_SERVER).await;
    value.is_some_and(|value| value.starts_with("1|x|-"))
}

/// Counterexample K12: a plain clean-up would free the key before its time.
#[tokio::test]
async fn a_release_that_is_cut_keeps_the_key_until_its_time() {
    let mut all = Vec::new();
    for fault in FAULTS {
        all.push(async move {
            let lab = Lab::new();
            let (pool, direct) = (lab.pool().await, lab.direct().await);
            let cut = lab.proxy.on(requests("release"), fault);
            let begun = Instant::now();
            kept(&pool, MIN_HOLD).run(async |_| ()).await.unwrap();
            cut.seen().await;
            until("it is nobody's", MIN_HOLD, async || is_retired(&lab).await).await;
            assert!(
                lab.server.pttl(ON_SERVER).await <= 2000,
                "{fault:?}: kept for too long"
            );
            lab.proxy.release_held(); // changes nothing
            let next = turn(waits(item(&direct))).await;
            let after = next.at - begun;
            assert!(
                after + ROUNDING >= MIN_HOLD,
                "{fault:?}: freed after {after:?}"
            );
            let bound = MIN_HOLD + SOON;
            assert!(after < wait::scaled(bound), "{fault:?}: kept for {after:?}");
            lab.stays(&next.guard).await;
        });
    }
    futures_util::future::join_all(all).await;
}

/// A dropped guard is given back by the watchdog alone.
#[tokio::test]
async fn a_guard_dropped_during_an_outage_keeps_the_key_until_its_time() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let begun = Instant::now();
    let guard = kept(&pool, MIN_HOLD).acquire().await.unwrap();
    lab.proxy.blackhole();
    drop(guard);
    lab.proxy.pass();
    until("it is nobody's", MIN_HOLD, async || is_retired(&lab).await).await;
    let next = turn(waits(item(&direct))).await;
    assert!(next.at - begun + ROUNDING >= MIN_HOLD);
    lab.stays(&next.guard).await;
}

/// Counterexample K13: a late renewal would lock everybody out for a whole ttl, for a key without a
/// holder.
#[tokio::test]
async fn a_renewal_that_comes_late_does_not_prolong_a_key_that_is_nobodys() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let min_hold = MIN_HOLD * 2;
    let held = lab.proxy.on(requests("renew"), Action::Hold);
    let begun = Instant::now();
    let lock = kept(&pool, min_hold).renew_every(Duration::from_millis(100));
    let guard = lock.acquire().await.unwrap();
    held.seen().await;
    let _ = guard.release().await; // its own connection may be the one that is held back
    until("it is nobody's", min_hold, async || is_retired(&lab).await).await;
    let monitor = lab.server.monitor();
    lab.proxy.release_held();
    monitor.wait_for(&crate::lab::sha("renew"), CAP).await;
    let left = lab.server.pttl(ON_SERVER).await;
    assert!(left <= 4000, "prolonged to {left} ms");
    let next = turn(waits(item(&direct))).await;
    let after = next.at - begun;
    assert!(after + ROUNDING >= min_hold, "freed after {after:?}");
    assert!(after < wait::scaled(min_hold + SOON), "kept for {after:?}");
}

/// Counterexample K14: the claim of a grant in turn is shorter than the `min_hold` that the body is
/// promised.
#[tokio::test]
async fn a_body_begins_in_turn_only_when_the_server_keeps_its_key_for_long_enough() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let holder = item(&direct).acquire().await.unwrap();
    let waiter = waits(kept(&pool, LONG).ttl(Duration::from_secs(1)).renew());
    lab.until_queued(1).await;
    holder.release().await.unwrap();
    let turn = turn(waiter).await;
    let left = lab.server.pttl(ON_SERVER).await;
    assert!(left > 20_000, "it ends in {left} ms");
    // With the wire cut for good, only the server keeps the key.
    lab.proxy.blackhole();
    drop(turn.guard);
    wait::pause(CLAIM + SLACK).await;
    assert!(lab.value(ON_SERVER).await.is_some());
}

#[tokio::test]
async fn a_body_whose_confirmation_is_lost_does_not_begin_on_that_grant() {
    for fault in [
        Action::CutBefore,
        Action::CutAfter,
        Action::Hold,
        Action::HoldReply,
    ] {
        let lab = Lab::new();
        let (pool, direct) = (lab.pool().await, lab.direct().await);
        let holder = item(&direct).acquire().await.unwrap();
        let waiter = waits(kept(&pool, LONG));
        lab.until_queued(1).await;
        let lost = lab.proxy.on(requests("renew"), fault);
        let monitor = lab.server.monitor();
        let freed = Instant::now();
        holder.release().await.unwrap();
        lost.seen().await;
        let turn = turn(waiter).await;
        let took = turn.at - freed;
        let value = lab.value(ON_SERVER).await.unwrap();
        let lines = monitor.settled().await;
        let set = format!("\"SET\" \"{ON_SERVER}\"");
        let grants: Vec<_> = lines.iter().filter(|line| line.contains(&set)).collect();
        assert!(
            grants.len() >= 2,
            "{fault:?}: it waits on for another grant"
        );
        assert!(!grants[0].contains(&value), "{fault:?}: a fresh token");
        assert!(lab.server.pttl(ON_SERVER).await > 20_000, "{fault:?}");
        // The grant whose body never began was not kept for its 30 s.
        assert!(took < wait::scaled(SOON * 2), "{fault:?}: took {took:?}");
        lab.proxy.release_held();
        lab.stays(&turn.guard).await;
    }
}

/// A waiter behind a key without a holder gets it when its time is over.
#[tokio::test]
async fn a_waiter_gets_a_kept_key_when_its_time_is_over() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let begun = Instant::now();
    let guard = kept(&direct, MIN_HOLD).acquire().await.unwrap();
    let waiter = lab.queued(&pool).await;
    guard.release().await.unwrap();
    assert!(is_retired(&lab).await);
    let turn = turn(waiter).await;
    let after = turn.at - begun;
    assert!(after + ROUNDING >= MIN_HOLD, "freed after {after:?}");
    let bound = MIN_HOLD + Duration::from_millis(200) + SLACK * 2;
    assert!(after < wait::scaled(bound), "kept for {after:?}");
}
