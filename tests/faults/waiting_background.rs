//! `Release::Background`: whatever happens to the release, the key becomes free. That the call does not
//! wait for it is in `unanswered`.

use std::time::{Duration, Instant};

use dlock_harness::{Action, until, wait};
use dlock_runtime::{LockPool, LockRequest, Release, Wait};
use dlock_tests::recorded::{lines, record};

use crate::lab::{self, CAP, LONG, Lab, TTL, requests, tell};
use crate::waiters::{turn, waits};

fn lock(pool: &LockPool, key: &str) -> LockRequest {
    pool.lock(key).ttl(LONG).release(Release::Background)
}

/// Only the operator is told: once for each release, with their number.
#[tokio::test]
async fn a_release_that_is_cut_is_repeated_and_counted() {
    record();
    let lab = Lab::new();
    let pool = lab.pool().await;
    let faults = [
        Action::CutBefore,
        Action::CutInside(60),
        Action::CutAfter,
        Action::Hold,
        Action::HoldReply,
    ];
    for (number, fault) in faults.into_iter().enumerate() {
        let cut = lab.proxy.on(requests("release"), fault);
        let key = format!("background-{number}");
        lock(&pool, &key).run(async |_| ()).await.unwrap();
        cut.seen().await;
        lab.until_free().await;
        let said = || lines(&["no clear answer", &format!("\"{key}\"")]);
        until("it is said", CAP, async || !said().is_empty()).await;
        let [said] = &said()[..] else {
            panic!("{fault:?}: {:?}", said());
        };
        let total = format!("total={}", number + 1);
        let mut words = said.split(' ');
        assert!(words.any(|it| it == total), "{fault:?}: {said}");
    }
}

#[tokio::test]
async fn a_waiter_gets_what_was_released_in_the_background() {
    let lab = Lab::new();
    let (pool, direct) = (lab.pool().await, lab.direct().await);
    let mut waiter = None;
    let held = lab.proxy.on(requests("release"), Action::CutBefore);
    lock(&pool, "item")
        .run(async |_| waiter = Some(lab.queued(&direct).await))
        .await
        .unwrap();
    held.seen().await;
    let turn = turn(waiter.unwrap()).await;
    lab.stays(&turn.guard).await;
}

/// A child process: it runs a body, and reports that it is done.
#[tokio::test]
#[ignore = "a child process"]
async fn holder() {
    let Some(url) = lab::server_of_role() else {
        return;
    };
    let config = dlock_runtime::Config::new(url).connect_timeout(CAP);
    let pool = LockPool::connect(config.command_timeout(CAP))
        .await
        .unwrap();
    let lock = lock(&pool, "item").ttl(TTL).wait(Wait::Once);
    lock.run(async |_| ()).await.unwrap();
    tell("done", ());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_process_killed_right_after_leaves_the_key_no_longer_than_its_ttl() {
    let lab = Lab::new();
    let pool = lab.direct().await;
    let held = lab.proxy.on(requests("release"), Action::Hold);
    let mut child = lab::child("waiting_background::holder", &lab.proxy.url());
    child.expect_line("done", CAP).await;
    held.seen().await;
    child.kill();
    let left = lab.server.pttl("lock:item").await;
    assert!(left != -1, "the key has a time to live");
    let left = Duration::from_millis(left.try_into().unwrap_or(0));
    assert!(left <= TTL);
    let killed = Instant::now();
    let waiter = waits(pool.lock("item").ttl(LONG).wait(Wait::Forever));
    let turn = turn(waiter).await;
    let took = turn.at - killed;
    assert!(
        took < wait::scaled(left + lab::SLACK * 2),
        "took {took:?} of {left:?}"
    );
    lab.proxy.release_held(); // the late release meets another holder's lock
    lab.stays(&turn.guard).await;
}
