//! How a function returns a failure to lock: by `From`, by `map_err`, by `on_error`. Its body has
//! not run then; if it has, and the lock was lost, the error of the body is told.

use std::error::Error as _;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dlock_runtime::{LockError, LockPool, distributed_lock};

use crate::{held, memory, on_memory, spans};

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

/// The error of a body that failed, or of its lock.
struct Failed<T>(Option<LockError>, PhantomData<T>);

/// With a text, without one, and with one that can't be written to its end.
struct Loud;
struct Mute;
struct Broken;

impl Display for Failed<Loud> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no such order")
    }
}

impl Display for Failed<Broken> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no such")?;
        Err(std::fmt::Error)
    }
}

impl<T> From<LockError> for Failed<T> {
    fn from(error: LockError) -> Self {
        Self(Some(error), PhantomData)
    }
}

const NONE: Option<LockError> = None;

/// Bodies that hold the thread for longer than the lease.
macro_rules! late {
    ($($name:ident $(<$parameter:ident>)?: $error:ty, [$($lock:tt)*], $outcome:expr;)*) => { $(
        #[distributed_lock(key = "late", ttl = "10ms", $($lock)*)]
        async fn $name $(<$parameter>)? () -> Result<u8, $error> {
            std::thread::sleep(Duration::from_millis(30));
            $outcome
        }
    )* };
}

late! {
    loud: Failed<Loud>, [], Err(Failed(NONE, PhantomData));
    mute: Failed<Mute>, [], Err(Failed(NONE, PhantomData));
    broken: Failed<Broken>, [], Err(Failed(NONE, PhantomData));
    of_any<T>: Failed<T>, [], Err(Failed(NONE, PhantomData));
    boxed: Box<dyn std::error::Error + Send + Sync>, [], Err("no such order".into());
    succeeds: Failed<Loud>, [], Ok(7);
    strict: Failed<Loud>, [release = "strict", on_lost = "finish"], Err(Failed(NONE, PhantomData));
    strict_and_succeeds: Failed<Loud>, [release = "strict", on_lost = "finish"], Ok(7);
    finished: Failed<Loud>, [on_lost = "finish"], Err(Failed(NONE, PhantomData));
}

/// The outcome is an alias, and below another lock.
type Outcome<T> = Result<T, Failed<Loud>>;

#[distributed_lock(key = "outer", ttl = "1m")]
#[distributed_lock(key = "late", ttl = "10ms")]
async fn stacked() -> Outcome<impl Display> {
    let key = held();
    std::thread::sleep(Duration::from_millis(30));
    if key == "late" {
        return Err(Failed(NONE, PhantomData));
    }
    Ok(7)
}

/// The caller gets the loss; the error that the body returned stands behind its reason, and in the
/// log.
#[tokio::test]
async fn a_loss_tells_the_error_of_the_body() {
    let mute = "its error has no `Display`";
    for (name, source, is_failed, told) in on_memory(losses()).await {
        let is_told = told.iter().any(|it| it.contains("dropped the error"));
        assert_eq!(is_told, is_failed, "{name}: {told:?}");
        let expected = match name {
            "mute" | "of_any" => Some(format!("the body had failed: {mute}")),
            "broken" => Some("the body had failed: no such".to_owned()),
            "succeeds" => None,
            "strict_and_succeeds" => Some("its release found nothing".to_owned()),
            "strict" => {
                Some("its release found nothing; the body had failed: no such order".to_owned())
            }
            _ => Some("the body had failed: no such order".to_owned()),
        };
        assert_eq!(source, expected, "{name}");
    }
    // Its error is the call's.
    let finished = on_memory(finished()).await.unwrap_err();
    assert!(finished.0.is_none());
}

/// Of each call: its name, the source of its loss, whether its body failed, and the log.
async fn losses() -> Vec<(&'static str, Option<String>, bool, Vec<String>)> {
    let (log, _default) = spans::logged_of("dlock_runtime::observe");
    let mut losses = Vec::new();
    macro_rules! lost {
        ($($name:ident: $call:expr;)*) => { $(
            let error: LockError = $call.await.map(drop).map_err(|it| it.0.unwrap()).unwrap_err();
            assert!(error.is_lost(), "{error}");
            let source = error.source().map(ToString::to_string);
            let is_failed = !stringify!($name).ends_with("succeeds");
            losses.push((stringify!($name), source, is_failed, log.take()));
        )* };
    }
    lost! {
        loud: loud();
        mute: mute();
        broken: broken();
        of_any: of_any::<Loud>();
        succeeds: succeeds();
        strict: strict();
        strict_and_succeeds: strict_and_succeeds();
        stacked: stacked();
    }
    let error = *boxed().await.unwrap_err().downcast::<LockError>().unwrap();
    let source = error.source().map(ToString::to_string);
    losses.push(("boxed", source, true, log.take()));
    losses
}
