//! TLS to the sentinels and to the servers.

use dlock_harness::{Watched, until};
use dlock_runtime::{LockError, LockPool, Refusal, Wait};
use dlock_tests::patient;

use crate::CAP;

#[tokio::test]
async fn a_lock_is_held_and_handed_on_through_a_failover_over_tls() {
    let watched = Watched::start_with_tls().await;
    let pool = LockPool::connect(patient(watched.url())).await.unwrap();
    let held = pool.lock("k").renew().acquire().await.unwrap();
    let waiter = tokio::spawn(pool.lock("k").wait(Wait::Forever).acquire());
    let master = &watched.servers[0];
    master.replicated(2).await;
    master.kill9();
    let new = watched.moved_from(0, &[0, 1, 2]).await;
    until("the new master is asked", CAP, async || {
        held.verify().await.is_ok()
    })
    .await;
    held.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    let exists = watched.servers[new].ask::<u64>(&["EXISTS", "lock:k"]);
    assert_eq!(exists.await, 1);
    next.release().await.unwrap();
}

#[tokio::test]
async fn sentinels_that_nobody_vouches_for_are_refused() {
    let watched = Watched::start_with_tls().await;
    let url = watched.url();
    let (without, _) = url.split_once('?').unwrap();
    let error = LockPool::connect(patient(without)).await.unwrap_err();
    let text = format!("{error:?}");
    let is_certificate = matches!(
        error,
        LockError::Refused {
            reason: Refusal::Certificate,
            ..
        }
    );
    assert!(is_certificate, "{text}");
    assert!(text.contains("no majority of the sentinels"), "{text}");
}
