//! A release whose connection breaks or goes silent: it ends with an answer or an error, and the key is gone.

use std::time::{Duration, Instant};

use dlock_harness::{Action, wait};
use dlock_runtime::{LockError, Released};

use crate::lab::{COMMAND, ITEM, LONG, Lab, SLACK, requests};

const FAULTS: [Action; 8] = [
    Action::CutBefore,
    Action::CutInside(1),
    Action::CutInside(60),
    Action::CutInside(100_000),
    Action::CutAfter,
    Action::CutReply(1),
    Action::Hold,
    Action::HoldReply,
];

#[tokio::test]
async fn a_release_without_a_clear_answer_still_frees_the_key() {
    for fault in FAULTS {
        let lab = Lab::new();
        let pool = lab.pool().await;
        let guard = pool.lock(ITEM).ttl(LONG).acquire().await.unwrap();
        let breaking = lab.proxy.on(requests("release"), fault);
        let begun = Instant::now();
        match guard.release().await {
            Ok(Released::Freed) | Err(LockError::Unavailable { .. }) => {}
            other => panic!("{fault:?}: {other:?}"),
        }
        assert!(
            begun.elapsed() < wait::scaled(COMMAND + SLACK),
            "{fault:?}: it hung"
        );
        assert_eq!(breaking.fired(), 1, "{fault:?}");
        lab.until_free().await;
    }
}

#[tokio::test]
async fn a_release_without_a_clear_answer_costs_the_body_nothing() {
    for fault in FAULTS {
        let lab = Lab::new();
        let pool = lab.pool().await;
        let breaking = lab.proxy.on(requests("release"), fault);
        let begun = Instant::now();
        let value = pool.lock(ITEM).ttl(LONG).run(async |_| 7).await;
        assert_eq!(value.unwrap(), 7, "{fault:?}");
        assert!(
            begun.elapsed() < wait::scaled(COMMAND + SLACK),
            "{fault:?}: it hung"
        );
        assert_eq!(breaking.fired(), 1, "{fault:?}");
        lab.until_free().await;
    }
}

/// The release is given up by its caller; it goes on.
#[tokio::test]
async fn a_release_that_is_dropped_on_its_way_still_frees_the_key() {
    for fault in [Action::Hold, Action::HoldReply] {
        let lab = Lab::new();
        let pool = lab.pool().await;
        let guard = pool.lock(ITEM).ttl(LONG).acquire().await.unwrap();
        let breaking = lab.proxy.on(requests("release"), fault);
        tokio::select! {
            answer = guard.release() => panic!("{fault:?}: {answer:?}"),
            () = breaking.seen() => {}
        }
        lab.until_free().await;
    }
}

#[tokio::test]
async fn a_key_released_during_an_outage_is_free_when_the_outage_ends() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let guard = pool.lock(ITEM).ttl(LONG).acquire().await.unwrap();
    lab.proxy.blackhole();
    drop(guard);
    // An outage has to have a length: longer than the first attempts.
    wait::pause(Duration::from_secs(2)).await;
    assert_eq!(lab.locks().await.len(), 1);
    lab.proxy.pass();
    lab.until_free().await;
}
