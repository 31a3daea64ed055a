//! `on_busy = "skip"`: a busy lock skips the body, and so does a job that is not due; each allowed
//! return type has a value for that, and nothing else is skipped.

use std::cell::Cell;
use std::time::Duration;

use dlock_runtime::{Config, LockError, LockPool, distributed_lock};

use crate::memory;

#[distributed_lock(key = "job", on_busy = "skip", on_error = |_| failed.set(true))]
async fn unit(ran: &Cell<bool>, failed: &Cell<bool>) {
    ran.set(true);
}

#[distributed_lock(key = "job", on_busy = "skip", on_error = |error| Some(error.to_string()))]
async fn option() -> Option<String> {
    Some("ran".to_owned())
}

#[distributed_lock(key = "job", on_busy = "skip")]
async fn result_unit(ran: &Cell<bool>) -> Result<(), LockError> {
    ran.set(true);
    Ok(())
}

#[distributed_lock(key = "job", on_busy = "skip")]
async fn result_option() -> Result<Option<u8>, LockError> {
    Ok(Some(1))
}

type Aliased<T> = Result<Option<T>, u16>;

#[distributed_lock(key = "job", on_busy = "skip", map_err = |error: LockError| if error.is_busy() { 409 } else { 503 })]
async fn alias() -> Aliased<u8> {
    Ok(Some(2))
}

#[distributed_lock(key = "job", on_busy = "skip")]
async fn impl_trait(id: u8) -> Result<Option<impl Into<u16>>, LockError> {
    Ok(Some(id))
}

struct Shop;

#[async_trait::async_trait]
trait Jobs {
    async fn nightly(&self) -> Result<Option<u8>, LockError>;
    async fn hourly(&self);
}

#[async_trait::async_trait]
impl Jobs for Shop {
    #[distributed_lock(key = "job", on_busy = "skip")]
    async fn nightly(&self) -> Result<Option<u8>, LockError> {
        Ok(Some(3))
    }

    #[distributed_lock(key = "job", on_busy = "skip", on_error = drop)]
    async fn hourly(&self) {}
}

#[distributed_lock(key = "job", on_busy = "skip", wait = "2s")]
async fn patient() -> Result<Option<u8>, LockError> {
    Ok(Some(4))
}

#[distributed_lock(key = "job", on_busy = "error", wait = "0s")]
async fn not_skipped() -> Result<Option<u8>, LockError> {
    Ok(Some(5))
}

#[distributed_lock(key = "nightly", once_per = "20h", on_busy = "skip", on_error = |error| panic!("{error}"))]
async fn nightly(ran: &Cell<u8>) {
    ran.set(ran.get() + 1);
}

/// Until the lock is free, or its job not due.
#[distributed_lock(key = "hourly", once_per = "1h", wait = "forever", on_busy = "skip")]
async fn hourly(takes: Duration) -> Result<Option<u8>, LockError> {
    tokio::time::sleep(takes).await;
    Ok(Some(6))
}

/// A busy lock inside the body is the body's error, and does not skip it.
#[distributed_lock(key = "outer", on_busy = "skip")]
async fn with_a_busy_body() -> Result<Option<u8>, LockError> {
    not_skipped().await
}

/// A pool whose locks wait for an hour by default.
async fn waits_long() -> LockPool {
    let config = Config::new("memory://").default_wait(Duration::from_secs(3600));
    LockPool::connect(config).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_leaves_the_body_out_at_once() {
    let begun = tokio::time::Instant::now();
    let pool = waits_long().await;
    let held = pool.lock("job").acquire().await.unwrap();
    pool.scope(async {
        let (ran, failed) = (Cell::new(false), Cell::new(false));
        unit(&ran, &failed).await;
        result_unit(&ran).await.unwrap();
        assert!(!ran.get() && !failed.get());
        assert_eq!(option().await, None);
        assert_eq!(result_option().await.unwrap(), None);
        assert_eq!(alias().await, Ok(None));
        assert!(impl_trait(7).await.unwrap().is_none());
        assert_eq!(Shop.nightly().await.unwrap(), None);
        Shop.hourly().await;
    })
    .await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "none waited");
    held.release().await.unwrap();
}

#[tokio::test]
async fn a_free_lock_is_taken_and_the_body_runs() {
    let pool = memory().await;
    pool.scope(async {
        let (ran, failed) = (Cell::new(false), Cell::new(false));
        unit(&ran, &failed).await;
        assert!(ran.take() && !failed.get());
        result_unit(&ran).await.unwrap();
        assert!(ran.get());
        assert_eq!(option().await.as_deref(), Some("ran"));
        assert_eq!(result_option().await.unwrap(), Some(1));
        assert_eq!(alias().await, Ok(Some(2)));
        assert_eq!(impl_trait(7).await.unwrap().map(Into::into), Some(7));
        assert_eq!(Shop.nightly().await.unwrap(), Some(3));
    })
    .await;
}

/// In an outage nobody knows whether the job was done: each function returns an error, and none
/// looks skipped.
#[tokio::test]
async fn an_outage_is_not_skipped() {
    let config = Config::new("redis://127.0.0.1:1").lazy(); // where nobody listens
    let pool = LockPool::connect(config).await.unwrap();
    pool.scope(async {
        let (ran, failed) = (Cell::new(false), Cell::new(false));
        unit(&ran, &failed).await;
        assert!(failed.get() && !ran.get());
        let unavailable = |error| matches!(error, LockError::Unavailable { .. });
        assert!(unavailable(result_unit(&ran).await.unwrap_err()));
        assert!(unavailable(result_option().await.unwrap_err()));
        assert!(unavailable(Shop.nightly().await.unwrap_err()));
        assert!(option().await.unwrap().contains("can't be reached"));
        assert_eq!(alias().await, Err(503));
        assert!(!ran.get());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_written_wait_is_waited_before_it_is_skipped() {
    let pool = waits_long().await;
    let held = pool.lock("job").acquire().await.unwrap();
    let begun = tokio::time::Instant::now();
    assert_eq!(pool.scope(patient()).await.unwrap(), None);
    assert_eq!(begun.elapsed(), Duration::from_secs(2));
    let given_back = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        held.release().await.unwrap();
    };
    let (value, ()) = tokio::join!(pool.scope(patient()), given_back);
    assert_eq!(value.unwrap(), Some(4));
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_not_due_leaves_the_body_out() {
    let pool = memory().await;
    let ran = Cell::new(0);
    pool.scope(async {
        nightly(&ran).await;
        nightly(&ran).await;
    })
    .await;
    assert_eq!(ran.get(), 1);
    let begun = tokio::time::Instant::now();
    let takes = Duration::from_secs(5);
    let (first, waits) = tokio::join!(pool.scope(hourly(takes)), pool.scope(hourly(takes)));
    assert_eq!((first.unwrap(), waits.unwrap()), (Some(6), None));
    assert!(begun.elapsed() < 2 * takes, "none ran after the first");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_to_be_skipped_is_busy() {
    let pool = waits_long().await;
    let held = pool.lock("job").acquire().await.unwrap();
    assert!(pool.scope(not_skipped()).await.unwrap_err().is_busy());
    assert!(pool.scope(with_a_busy_body()).await.unwrap_err().is_busy());
    held.release().await.unwrap();
}
