//! Guarded writes that come late: only the holder's are applied. `unanswered` has those whose answer
//! never comes.

use std::time::Duration;

use dlock_harness::{Action, Child, until, wait};
use dlock_runtime::{Batch, Config, LockError, LockPool, LostCause};

use crate::body::lost;
use crate::lab::{self, CAP, ITEM, LONG, Lab, ON_SERVER, TTL, requests, tell};

/// In the slot of the item's lock.
const DATA: &str = "{lock:item}:data";

/// A pool over the proxy, for which a busy machine is no outage.
async fn patient(lab: &Lab) -> LockPool {
    lab.pool_of(lab.config().command_timeout(CAP)).await
}

/// The same, without the proxy.
async fn direct(lab: &Lab) -> LockPool {
    let config = Config::new(lab.server.url());
    lab.pool_of(config.command_timeout(CAP)).await
}

fn batch(value: &str) -> Batch {
    Batch::new().rpush(DATA, value)
}

async fn data(lab: &Lab) -> Vec<String> {
    lab.server.ask(&["LRANGE", DATA, "0", "-1"]).await
}

fn is_gone(written: &Result<(), LockError>) -> bool {
    let gone = LostCause::Gone;
    matches!(written, Err(LockError::Lost { cause, .. }) if *cause == gone)
}

const AS_A_LIST: &str = "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'theirs')";

/// The holder was not told; the write is refused and ends the lease.
#[tokio::test]
async fn a_lock_that_is_gone_or_taken_writes_nothing_and_the_lease_is_over() {
    for meanwhile in [
        &["DEL", ON_SERVER][..],
        &["SET", ON_SERVER, "somebody"],
        &["FLUSHALL"],
        &["RENAME", ON_SERVER, "elsewhere"],
        // A list: that is no lock of ours, and no server error.
        &["EVAL", AS_A_LIST, "1", ON_SERVER],
    ] {
        let lab = Lab::new();
        let lock = patient(&lab).await.lock(ITEM).ttl(LONG).acquire();
        let lock = lock.await.unwrap();
        lock.write(&batch("in time")).await.unwrap();
        lab.server.cmd(meanwhile).await;
        lab.server.cmd(&["DEL", DATA]).await;
        assert!(lock.is_held(), "as far as it knows");
        let written = lock.write(&batch("late")).await;
        assert!(is_gone(&written), "{meanwhile:?}: {written:?}");
        assert_eq!(data(&lab).await, [""; 0]);
        assert!(!lock.is_held());
        assert_eq!(lock.lost().await, LostCause::Gone);
    }
}

/// The write is on its way when its lease ends and the next holder writes: Kleppmann's scenario,
/// without a fence.
#[tokio::test]
async fn a_write_that_arrives_when_the_next_has_the_lock_is_not_applied() {
    let lab = Lab::new();
    let slow = patient(&lab).await;
    let (held, monitor) = (
        lab.proxy.on(requests("write"), Action::Hold),
        lab.server.monitor(),
    );
    let late = slow.lock(ITEM).ttl(TTL).acquire().await.unwrap();
    let writing = tokio::spawn(async move { late.write(&batch("late")).await });
    held.seen().await;
    let direct = direct(&lab).await;
    let next = direct.lock(ITEM).ttl(LONG).wait(CAP).acquire();
    let next = next.await.unwrap();
    next.write(&batch("next")).await.unwrap();
    monitor.wait_for("next", CAP).await;
    lab.proxy.release_held();
    let written = writing.await.unwrap();
    assert_eq!(lost(written), (LostCause::Deadline, false));
    assert_eq!(data(&lab).await, ["next"]);
}

#[tokio::test]
async fn a_dropped_write_is_applied_whole_or_not_at_all() {
    let lab = Lab::new();
    let pool = patient(&lab).await;
    let seen = lab.proxy.on(requests("write"), Action::HoldReply);
    let lock = pool.lock(ITEM).ttl(LONG).acquire().await.unwrap();
    let both = batch("1").rpush(DATA, "2");
    tokio::select! {
        written = lock.write(&both) => panic!("its answer is held back: {written:?}"),
        () = seen.seen() => {}
    }
    assert_eq!(data(&lab).await, ["1", "2"]);
    lab.proxy.release_held();
    lock.verify().await.unwrap();
}

/// The child process: it holds, is stopped past its lease, and goes on as if nothing had happened.
#[tokio::test]
#[ignore = "a child process"]
async fn holder() {
    let Some(url) = lab::server_of_role() else {
        return;
    };
    let pool = LockPool::connect(Config::new(url).command_timeout(CAP));
    let lock = pool.await.unwrap().lock(ITEM).ttl(TTL).wait(CAP).acquire();
    let lock = lock.await.unwrap();
    lock.write(&batch("holder")).await.unwrap();
    tell("written", 1);
    let mut last = None;
    until("no longer the holder", CAP * 2, async || {
        let written = lock.write(&batch("holder")).await;
        wait::pause(Duration::from_millis(1)).await;
        last = written.err();
        last.is_some()
    })
    .await;
    tell("lost", last.is_some_and(|error| error.is_lost()));
}

#[tokio::test]
async fn a_holder_that_was_stopped_in_the_middle_of_its_writes_writes_no_more() {
    let lab = Lab::new();
    let mut child: Child = lab::child("writes::holder", &lab.server.url());
    child.expect_line("written ", CAP).await;
    child.stop();
    let next = direct(&lab).await.lock(ITEM).ttl(LONG).wait(CAP).acquire();
    let next = next.await.unwrap();
    let clear = Batch::new().del(DATA).rpush(DATA, "next");
    next.write(&clear).await.unwrap();
    child.cont();
    assert_eq!(child.expect_line("lost ", CAP).await, "true");
    assert!(child.wait(CAP).await.success());
    assert_eq!(data(&lab).await, ["next"]);
    lab.stays(&next).await;
}
