//! How a function returns a failure to lock: by `From`, by `map_err`, by `on_error`. Its body has
//! not run then.

use std::sync::atomic::{AtomicU32, Ordering};

use dlock_runtime::{LockError, LockPool, distributed_lock};

use crate::memory;

/// How often a body ran although the lock was busy.
static RAN: AtomicU32 = AtomicU32::new(0);

fn ran() {
    RAN.fetch_add(1, Ordering::SeqCst);
}

#[derive(Debug)]
enum ShopError {
    Lock(LockError),
}

impl std::fmt::Display for ShopError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self::Lock(error) = self;
        error.fmt(f)
    }
}

impl From<LockError> for ShopError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[distributed_lock(key = "busy", wait = "0s")]
async fn from() -> Result<(), ShopError> {
    ran();
    Ok(())
}

#[distributed_lock(key = "busy", wait = "0s")]
async fn trait_object() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ran();
    Ok(())
}

type Aliased<T> = Result<T, LockError>;

#[distributed_lock(key = "busy", wait = "0s")]
async fn alias() -> Aliased<()> {
    ran();
    Ok(())
}

#[distributed_lock(key = "busy", wait = "0s", map_err = |error| if error.is_busy() { 409 } else { 503 })]
async fn map_err() -> Result<(), u16> {
    ran();
    Ok(())
}

fn to_text(error: LockError) -> String {
    ShopError::from(error).to_string()
}

#[distributed_lock(key = "busy", wait = "0s", map_err = to_text)]
async fn map_err_by_name() -> Result<&'static str, String> {
    ran();
    Ok("ran")
}

/// What `map_err` captures must outlive the body, which takes the arguments.
#[distributed_lock(key = "busy:<id>", wait = "0s", map_err = |error| Box::new(error))]
async fn map_err_coerces(id: u8) -> Result<u8, Box<dyn std::error::Error>> {
    ran();
    Ok(id)
}

#[distributed_lock(key = "busy", wait = "0s", on_error = |error| error.to_string())]
async fn on_error() -> String {
    ran();
    "ran".to_owned()
}

#[distributed_lock(key = "busy", wait = "0s", on_error = drop)]
async fn on_error_by_name() {
    ran();
}

#[distributed_lock(key = "busy", wait = "0s", on_error = |_| None)]
async fn on_error_option() -> Option<u8> {
    ran();
    Some(1)
}

async fn busy() -> LockPool {
    let pool = memory().await;
    for key in ["busy", "busy:1"] {
        std::mem::forget(pool.lock(key).acquire().await.unwrap());
    }
    pool
}

#[tokio::test(start_paused = true)]
async fn a_busy_lock_is_reported_each_way_and_no_body_runs() {
    let begun = tokio::time::Instant::now();
    busy()
        .await
        .scope(async {
            let ShopError::Lock(error) = from().await.unwrap_err();
            assert!(error.is_busy());
            let error = trait_object().await.unwrap_err();
            assert!(
                error
                    .downcast_ref::<LockError>()
                    .is_some_and(LockError::is_busy)
            );
            assert!(alias().await.unwrap_err().is_busy());
            assert_eq!(map_err().await, Err(409));
            assert!(
                map_err_by_name()
                    .await
                    .unwrap_err()
                    .contains("busy is busy")
            );
            assert!(map_err_coerces(1).await.unwrap_err().is::<LockError>());
            assert!(on_error().await.contains("busy is busy"));
            on_error_by_name().await;
            assert_eq!(on_error_option().await, None);
        })
        .await;
    assert_eq!(RAN.load(Ordering::SeqCst), 0);
    assert_eq!(
        begun.elapsed(),
        std::time::Duration::ZERO,
        "each tried once"
    );
}

#[tokio::test]
async fn every_handler_sees_what_went_wrong() {
    // Without a pool there is another error, which takes the other branch.
    assert_eq!(map_err().await, Err(503));
    assert!(
        map_err_by_name()
            .await
            .unwrap_err()
            .contains("dlock_runtime::init")
    );
    assert!(on_error().await.contains("dlock_runtime::init"));
}
