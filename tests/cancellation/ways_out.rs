//! Every way out of a body other than its normal end: the lock is free, and the caller sees what
//! the body did.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use dlock_runtime::{LockError, distributed_lock};
use futures_util::FutureExt as _;
use tokio::sync::Notify;

use crate::world::World;

#[derive(Debug)]
enum ShopError {
    SoldOut,
    Lock,
}

impl From<LockError> for ShopError {
    fn from(_: LockError) -> Self {
        Self::Lock
    }
}

/// What a body does once it has its lock.
#[derive(Clone, Copy, Debug)]
enum Way {
    Stay,
    Panic,
    QuestionMark,
    Return,
    Error,
}

#[distributed_lock(key = "item", ttl = "30s", wait = "0s", renew)]
async fn purchase(way: Way, begun: Arc<Notify>) -> Result<u32, ShopError> {
    begun.notify_one();
    tokio::task::yield_now().await;
    match way {
        Way::Stay => std::future::pending().await,
        Way::Panic => std::panic::panic_any("out of stock".to_owned()),
        Way::QuestionMark => Err(ShopError::SoldOut)?,
        Way::Return => return Ok(1),
        Way::Error => Err(ShopError::SoldOut),
    }
}

/// A call on a task of its own that has its lock.
async fn begin(world: &World, way: Way) -> tokio::task::JoinHandle<Result<u32, ShopError>> {
    let (pool, begun) = (world.pool.clone(), Arc::new(Notify::new()));
    let calling = begun.clone();
    let task = tokio::spawn(async move { pool.scope(purchase(way, calling)).await });
    begun.notified().await;
    task
}

async fn a_timeout_frees_the_lock(world: &World) {
    let baseline = world.baseline().await;
    let call = world.pool.scope(purchase(Way::Stay, Arc::default()));
    let late = tokio::time::timeout(Duration::from_millis(30), call).await;
    late.unwrap_err();
    world.freed("item").await;
    world.is_back_at(&baseline).await;
}

async fn select_frees_the_lock(world: &World) {
    let baseline = world.baseline().await;
    let begun = Arc::new(Notify::new());
    tokio::select! {
        _ = world.pool.scope(purchase(Way::Stay, begun.clone())) => panic!("it stays"),
        () = begun.notified() => {}
    }
    world.freed("item").await;
    world.is_back_at(&baseline).await;
}

async fn an_aborted_task_frees_the_lock(world: &World) {
    let baseline = world.baseline().await;
    let task = begin(world, Way::Stay).await;
    assert!(!world.is_free("item").await);
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    world.freed("item").await;
    world.is_back_at(&baseline).await;
}

async fn a_panic_is_the_callers_and_frees_the_lock(world: &World) {
    let baseline = world.baseline().await;
    let died = begin(world, Way::Panic).await.await.unwrap_err();
    assert_eq!(
        *died.into_panic().downcast::<String>().unwrap(),
        "out of stock"
    );
    world.freed("item").await;
    world.is_back_at(&baseline).await;
}

async fn a_panic_that_is_caught_frees_the_lock(world: &World) {
    let baseline = world.baseline().await;
    let call = world.pool.scope(purchase(Way::Panic, Arc::default()));
    let payload = AssertUnwindSafe(call).catch_unwind().await.unwrap_err();
    assert_eq!(*payload.downcast::<String>().unwrap(), "out of stock");
    assert!(dlock_runtime::current().is_none());
    world.freed("item").await;
    world.is_back_at(&baseline).await;
}

/// A caller that has the answer finds the lock free, without any waiting.
async fn an_answer_comes_after_the_release(world: &World) {
    let baseline = world.baseline().await;
    for way in [Way::QuestionMark, Way::Return, Way::Error] {
        let output = world.pool.scope(purchase(way, Arc::default())).await;
        assert!(world.is_free("item").await, "{way:?}");
        match way {
            Way::Return => assert_eq!(output.unwrap(), 1),
            _ => assert!(
                matches!(output, Err(ShopError::SoldOut)),
                "{way:?}: {output:?}"
            ),
        }
    }
    world.is_back_at(&baseline).await;
}

/// When dropped, checks whether the lock is still held, after a pause in which a release that came
/// too early would have freed it.
struct ChecksItsLock<'a>(&'a World, &'a mut Option<bool>);

impl Drop for ChecksItsLock<'_> {
    fn drop(&mut self) {
        // Blocks the runtime; the watchdog has a thread of its own.
        std::thread::sleep(Duration::from_millis(50));
        *self.1 = Some(self.0.is_free_now("item"));
    }
}

#[distributed_lock(key = "item", ttl = "30s")]
async fn looks(
    world: &World,
    free: &mut Option<bool>,
    dropped_at: Option<&Notify>,
) -> Result<(), LockError> {
    let _looks = ChecksItsLock(world, free);
    if let Some(begun) = dropped_at {
        begun.notify_one();
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn a_body_goes_before_its_lock(world: &World) {
    let mut free = None;
    world
        .pool
        .scope(looks(world, &mut free, None))
        .await
        .unwrap();
    assert_eq!(free, Some(false), "it ended");
    let (mut free, begun) = (None, Notify::new());
    tokio::select! {
        _ = world.pool.scope(looks(world, &mut free, Some(&begun))) => panic!("it stays"),
        () = begun.notified() => {}
    }
    assert_eq!(free, Some(false), "it was dropped");
    world.freed("item").await;
}

everywhere!(
    a_timeout_frees_the_lock,
    select_frees_the_lock,
    an_aborted_task_frees_the_lock,
    a_panic_is_the_callers_and_frees_the_lock,
    a_panic_that_is_caught_frees_the_lock,
    an_answer_comes_after_the_release,
    a_body_goes_before_its_lock,
);
