//! An acquire whose connection breaks at every kind of point: before the request, in it, behind it,
//! in the reply.
//!
//! The lease is 30 s, so whatever is gone within seconds was cleaned up.

use std::time::{Duration, Instant};

use dlock_harness::{Action, Matcher, wait};
use dlock_runtime::{LockError, LockPool, Wait};

use crate::lab::{CAP, ITEM, LONG, Lab, ON_SERVER, SOON, acquires, requests};

/// More bytes than any request or reply has: all of it passes, then the cut.
const ALL: usize = 100_000;

/// Bytes of a request that arrive: its head, the script's name, the key, the value, all.
const OF_REQUEST: [usize; 7] = [0, 1, 20, 60, 110, 180, ALL];

/// Bytes of the reply that arrive, a number of 16 digits: none, its head, some digits, more, all
/// but the last byte, all.
const OF_REPLY: [usize; 6] = [0, 1, 4, 9, 18, ALL];

#[tokio::test]
async fn nothing_stays_of_an_acquire_cut_before_or_in_its_request() {
    let mut cuts = vec![Action::CutBefore];
    cuts.extend(OF_REQUEST.map(Action::CutInside));
    check_all(&cuts).await;
}

#[tokio::test]
async fn nothing_stays_of_an_acquire_cut_before_or_in_its_reply() {
    let mut cuts = vec![Action::CutAfter];
    cuts.extend(OF_REPLY.map(Action::CutReply));
    check_all(&cuts).await;
}

async fn check_all(cuts: &[Action]) {
    let lab = Lab::new();
    let pool = lab.pool().await;
    for &cut in cuts {
        check_single_try(&lab, &pool, cut).await;
        check_wait(&lab, &pool, cut).await;
    }
}

/// The caller gives up at the cut: a lock that it may have got is taken back.
async fn check_single_try(lab: &Lab, pool: &LockPool, cut: Action) {
    let cutting = lab.proxy.on(acquires(), cut);
    match pool.lock(ITEM).ttl(LONG).wait(Wait::Once).acquire().await {
        Err(LockError::Unavailable { .. }) => {}
        // The whole reply was let through, and may be read before the cut.
        Ok(guard) if cut == Action::CutReply(ALL) => drop(guard),
        other => panic!("{cut:?}: {other:?}"),
    }
    cutting.seen().await; // the caller may have read the whole reply before the cut
    lab.until_free().await;
    lab.proxy.clear_triggers();
}

/// The caller waits on: it gets the lock when the clean-up has freed it, and no clean-up takes it
/// away then.
async fn check_wait(lab: &Lab, pool: &LockPool, cut: Action) {
    let cutting = lab.proxy.on(acquires(), cut);
    let begun = Instant::now();
    let guard = pool.lock(ITEM).ttl(LONG).wait(CAP).acquire().await;
    let guard = guard.unwrap_or_else(|error| panic!("{cut:?}: {error}"));
    let took = begun.elapsed();
    assert!(took < wait::scaled(SOON), "{cut:?}: got it after {took:?}");
    cutting.seen().await; // the caller may have read the whole reply before the cut
    lab.stays(&guard).await;
    drop(guard);
    lab.until_free().await;
    lab.proxy.clear_triggers();
}

#[tokio::test]
async fn a_script_sent_by_text_is_cleaned_up_as_well() {
    for cut in [Action::CutBefore, Action::CutAfter, Action::CutReply(5)] {
        let lab = Lab::new(); // a new server that knows no script
        let pool = LockPool::connect(lab.config()).await.unwrap();
        let cutting = lab
            .proxy
            .on(Matcher::command("EVAL").containing(ON_SERVER), cut);
        let begun = Instant::now();
        let guard = pool.lock(ITEM).ttl(LONG).wait(CAP).acquire().await.unwrap();
        assert!(begun.elapsed() < wait::scaled(SOON), "{cut:?}");
        cutting.seen().await; // the caller may have read the whole reply before the cut
        lab.stays(&guard).await;
        drop(guard);
        lab.until_free().await;
    }
}

/// Clean-ups of dead tokens are repeated while a live token holds the same key.
#[tokio::test]
async fn a_clean_up_that_is_repeated_never_frees_a_live_lock() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let _dead = lab.proxy.on(acquires(), Action::CutAfter);
    // Each clean-up is executed and its answer lost, so it is repeated.
    let deaf = lab.proxy.on(requests("cancel").every(), Action::CutAfter);
    let guard = pool.lock(ITEM).ttl(LONG).wait(CAP).acquire().await.unwrap();
    let before = deaf.fired();
    dlock_harness::until("clean-ups beside the live lock", CAP, async || {
        deaf.fired() > before + 2
    })
    .await;
    lab.stays(&guard).await;
    lab.proxy.clear_triggers();
    guard.release().await.unwrap();
    lab.until_free().await;
}

/// Each cut breaks all connections at once, and many callers wait: all get their turn, nothing
/// stays.
#[tokio::test]
async fn many_callers_survive_a_wire_that_is_cut_again_and_again() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    let callers = (0..20).map(|_| {
        let pool = pool.clone();
        tokio::spawn(async move {
            let lock = pool.lock(ITEM).ttl(LONG).wait(LONG);
            let guard = lock.acquire().await.unwrap();
            let fence = guard.fence();
            drop(guard);
            fence
        })
    });
    let callers: Vec<_> = callers.collect();
    for _ in 0..10 {
        lab.proxy.cut_all();
        wait::pause(Duration::from_millis(20)).await;
    }
    let mut fences = Vec::new();
    for caller in callers {
        fences.push(caller.await.unwrap());
    }
    fences.sort_unstable();
    fences.dedup();
    assert_eq!(fences.len(), 20, "each grant has its own token");
    lab.until_free().await;
}
