//! `on_lost = "finish"`: a body whose lease is lost runs to its end and its value is returned; it
//! can see the loss.

use std::thread;
use std::time::Duration;

use dlock_runtime::{LockError, LockPool, LostCause, distributed_lock};
use tokio::sync::Notify;

use crate::lab::{CAP, Lab};

/// Reports that it began, waits for its loss, and reports that.
#[distributed_lock(key = "item", ttl = "2s", renew, on_lost = "finish", guard = lock, pool = pool)]
async fn outlives_its_lease(
    pool: &LockPool,
    began: &Notify,
) -> Result<(LostCause, bool, Duration), LockError> {
    assert!(lock.is_held());
    began.notify_one();
    let cause = lock.lost().await;
    tokio::time::sleep(Duration::from_millis(20)).await; // it is still polled
    Ok((cause, lock.is_held(), lock.remaining()))
}

#[distributed_lock(key = "item", ttl = "300ms", on_lost = "finish", guard = lock, pool = pool)]
async fn blocks_past_its_lease(pool: &LockPool) -> Result<bool, LockError> {
    thread::sleep(Duration::from_millis(500));
    Ok(lock.is_held())
}

/// The same without `on_lost`: its value is dropped.
#[distributed_lock(key = "item", ttl = "300ms", pool = pool)]
async fn blocks_and_is_cancelled(pool: &LockPool) -> Result<bool, LockError> {
    thread::sleep(Duration::from_millis(500));
    Ok(true)
}

#[tokio::test]
async fn a_body_finishes_after_its_deadline() {
    let lab = Lab::new();
    let (pool, began) = (lab.pool().await, Notify::new());
    let cutting = async {
        began.notified().await;
        lab.proxy.blackhole();
    };
    let (value, ()) = tokio::join!(outlives_its_lease(&pool, &began), cutting);
    assert_eq!(value.unwrap(), (LostCause::Deadline, false, Duration::ZERO));
}

#[tokio::test]
async fn a_body_that_blocks_past_its_deadline_keeps_its_value() {
    let lab = Lab::new();
    let pool = lab.pool().await;
    assert!(!blocks_past_its_lease(&pool).await.unwrap());
    let error = blocks_and_is_cancelled(&pool).await.unwrap_err();
    let is_lost = matches!(
        error,
        LockError::Lost {
            cause: LostCause::Deadline,
            finished: true,
            ..
        }
    );
    assert!(is_lost, "{error:?}");
    lab.until_free().await;
}

/// What the body does after its loss must not touch the next holder.
#[tokio::test]
async fn the_next_holder_is_left_alone() {
    let lab = Lab::new();
    let (pool, direct, began) = (lab.pool().await, lab.direct().await, Notify::new());
    let taking = async {
        began.notified().await;
        lab.proxy.blackhole();
        let guard = direct
            .lock("item")
            .renew()
            .wait(CAP)
            .acquire()
            .await
            .unwrap();
        lab.proxy.pass();
        guard
    };
    let (value, guard) = tokio::join!(outlives_its_lease(&pool, &began), taking);
    assert!(!value.unwrap().1);
    lab.stays(&guard).await;
    guard.release().await.unwrap();
}
