//! A process that is stopped past its lease, by `SIGSTOP`: while it holds the lock, and while its
//! grant is on its way.
//!
//! The process is this test program run again, with a variable that tells it to play the holder.

use std::sync::Arc;

use dlock_harness::{Action, Child, until};
use dlock_runtime::{Config, LockError, LockGuard, LockPool};

use crate::body::{Polls, Watched, tick};
use crate::lab::{self, CAP, ITEM, Lab, ON_SERVER, TTL, acquires, tell};

/// The child process; in the test run itself this does nothing.
#[tokio::test]
#[ignore = "a child process"]
async fn holder() {
    let Some(url) = lab::server_of_role() else {
        return;
    };
    let pool = LockPool::connect(Config::new(url).command_timeout(CAP))
        .await
        .unwrap();
    let polls = Arc::new(Polls::default());
    let lock = pool.lock(ITEM).ttl(TTL).renew().wait(CAP);
    let result = lock.run(async |lock: &LockGuard| {
        let body = async {
            tell("held", lock.fence());
            tell("left", lock.remaining().as_millis());
            tick().await;
        };
        Watched::new(&polls, body).await;
    });
    let Err(LockError::Lost {
        cause, finished, ..
    }) = result.await
    else {
        panic!("it ends by loss alone")
    };
    tell("late", polls.late());
    tell("lost", (cause, finished));
}

fn child(url: &str) -> Child {
    lab::child("paused::holder", url)
}

/// The number in what the child printed of its fence.
fn fence(line: &str) -> u64 {
    line.trim_start_matches("Fence(")
        .trim_end_matches(')')
        .parse()
        .unwrap()
}

#[tokio::test]
async fn a_holder_that_slept_past_its_lease_does_nothing_more() {
    let lab = Lab::new();
    let mut child = child(&lab.server.url());
    let slept = fence(&child.expect_line("held ", CAP).await);
    child.stop();
    let guard = lab
        .direct()
        .await
        .lock(ITEM)
        .renew()
        .wait(CAP)
        .acquire()
        .await
        .unwrap();
    assert!(guard.fence().get() > slept);
    child.cont();
    assert_eq!(child.expect_line("late ", CAP).await, "0");
    assert_eq!(child.expect_line("lost ", CAP).await, "(Deadline, false)");
    assert!(child.wait(CAP).await.success());
    lab.stays(&guard).await;
    guard.release().await.unwrap();
}

/// Its grant waits in its socket while it sleeps: after it wakes, it must not count as a lease.
#[tokio::test]
async fn a_grant_that_was_slept_over_is_none() {
    let lab = Lab::new();
    lab.pool().await; // now the server knows the scripts
    let held_back = lab.proxy.on(acquires().nth(1), Action::HoldReply);
    let mut child = child(&lab.proxy.url());
    held_back.seen().await;
    let first: String = lab.value(ON_SERVER).await.expect("granted");
    child.stop();
    lab.proxy.release_held();
    until("the grant is over", CAP, async || {
        lab.locks().await.is_empty()
    })
    .await;
    child.cont();
    // It goes on with a fresh token, and gets a whole lease.
    child.expect_line("held ", CAP).await;
    let left: u64 = child.expect_line("left ", CAP).await.parse().unwrap();
    assert!(left > 0, "the body began without a lease");
    let second = lab.value(ON_SERVER).await;
    assert!(
        second.is_some_and(|second| second != first),
        "the old grant was revived"
    );
    child.kill();
}
