//! The scope of a body: locks that no enclosing body holds are waited for, and no scope stays set.
//! That those of an enclosing body are refused is in `conformance/nested_edges`.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use dlock_runtime::{Holder, LockError, LockPool, Wait, current, distributed_lock};
use futures_util::FutureExt as _;
use tokio::sync::Notify;

use crate::world::World;
use dlock_harness::polls::at_every_poll;

/// If the call waited, the test would not end.
const NEVER: Wait = Wait::Forever;

#[distributed_lock(key = "item:<id>", ttl = "30s", wait = "forever")]
async fn outer(id: u32, inner_id: u32) -> Result<u32, LockError> {
    tokio::task::yield_now().await;
    inner(inner_id).await
}

#[distributed_lock(key = "item:<id>", ttl = "30s", wait = "forever")]
async fn inner(id: u32) -> Result<u32, LockError> {
    tokio::time::sleep(Duration::from_millis(5)).await;
    Ok(id)
}

async fn the_same_key_of_another_pool_is_another_lock(world: &World) {
    let other = LockPool::connect("memory://").await.unwrap();
    let call = async |_: &_| other.lock("item:1").wait(NEVER).acquire().await.map(drop);
    world.pool.lock("item:1").run(call).await.unwrap().unwrap();
}

/// The enclosing lock is another one.
async fn siblings_in_a_body_wait_for_each_other(world: &World) {
    let body = async |_: &_| tokio::join!(world.pool.scope(inner(1)), world.pool.scope(inner(1)));
    let both = world.pool.lock("item:2").run(body);
    let both = tokio::time::timeout(Duration::from_secs(10), both)
        .await
        .unwrap();
    assert!(matches!(both, Ok((Ok(1), Ok(1)))), "{both:?}");
}

async fn a_spawned_task_waits_for_the_body_that_spawned_it(world: &World) {
    let pool = world.pool.clone();
    let spawned = async |_: &_| {
        let now = tokio::spawn({
            let request = pool.lock("item:1").wait(Wait::Once);
            async move { request.acquire().await.map(drop) }
        });
        let busy = now.await.unwrap().unwrap_err();
        let LockError::Busy {
            holder: Holder::Process(holder),
            ..
        } = busy
        else {
            panic!("{busy:?}");
        };
        assert!(holder.is_this_process());
        let request = pool.lock("item:1").wait(Duration::from_secs(10));
        let waits = tokio::spawn(async move { request.acquire().await.map(drop) });
        vec![waits]
    };
    let mut waits = pool.lock("item:1").run(spawned).await.unwrap();
    waits.remove(0).await.unwrap().unwrap();
    world.freed("item:1").await;
}

async fn a_panic_puts_the_scope_back(world: &World) {
    let dying = world.pool.lock("item:1").run(async |_| {
        tokio::task::yield_now().await;
        panic!("on purpose")
    });
    let died: Result<Result<(), _>, _> = AssertUnwindSafe(dying).catch_unwind().await;
    assert_eq!(died.unwrap_err().downcast_ref(), Some(&"on purpose"));
    assert!(current().is_none());
    let again = world
        .pool
        .lock("item:1")
        .wait(Duration::from_secs(10))
        .run(async |_| 7)
        .await;
    assert_eq!(again.unwrap(), 7, "neither held nor refused");

    let in_scope = world.pool.scope(async { panic!("on purpose") });
    let died: Result<(), _> = AssertUnwindSafe(in_scope).catch_unwind().await;
    died.unwrap_err();
    assert!(matches!(inner(1).await, Err(LockError::NotInitialized)));
}

async fn a_drop_puts_the_scope_back(world: &World) {
    let call = async |_| world.pool.scope(outer(1, 2)).await.unwrap();
    at_every_poll(call, async |cut, _| {
        assert!(current().is_none(), "{cut:?}");
        assert!(
            matches!(inner(3).await, Err(LockError::NotInitialized)),
            "{cut:?}"
        );
        world.freed("item:1").await;
        world.freed("item:2").await;
    })
    .await;
}

/// Which of the pools this body's lock is in.
#[distributed_lock(key = "item:1", ttl = "30s", wait = "0s")]
async fn held_in(pools: [&LockPool; 2]) -> Result<[bool; 2], LockError> {
    let is_in = async |pool: &LockPool| pool.holder("item:1").await.map(|holder| holder.is_some());
    Ok([is_in(pools[0]).await?, is_in(pools[1]).await?])
}

async fn the_pool_of_a_scope_is_the_innermost(world: &World) {
    let other = LockPool::connect("memory://").await.unwrap();
    let pools = [&world.pool, &other];
    let nested = world.pool.scope(other.scope(held_in(pools))).await;
    assert_eq!(nested.unwrap(), [false, true]);
    let put_back = world.pool.scope(async {
        other.scope(async {}).await;
        held_in(pools).await
    });
    assert_eq!(put_back.await.unwrap(), [true, false]);
    let siblings = async { tokio::join!(other.scope(held_in(pools)), held_in(pools)) };
    let (in_other, in_world) = world.pool.scope(siblings).await;
    assert_eq!((in_other.unwrap()[1], in_world.unwrap()[0]), (true, true));

    let spawned = async { tokio::spawn(inner(1)).await.unwrap() };
    let spawned = world.pool.scope(spawned).await;
    assert!(matches!(spawned, Err(LockError::NotInitialized)));
    assert!(matches!(inner(1).await, Err(LockError::NotInitialized)));
}

#[distributed_lock(key = "item:2", ttl = "30s")]
async fn stays(begun: &Notify) -> Result<(), LockError> {
    begun.notify_one();
    std::future::pending().await
}

/// A future that was started under a lock, and lives on outside, keeps the scope of its start; it
/// must not keep the lock too.
async fn what_was_started_under_a_lock_does_not_keep_it(world: &World) {
    let (begun, ready) = (Notify::new(), Notify::new());
    let mut started = Box::pin(world.pool.scope(stays(&begun)));
    let body = async |_: &_| {
        tokio::select! {
            _ = &mut started => panic!("it stays"),
            () = begun.notified() => ready.notify_one(),
        }
        std::future::pending::<()>().await;
    };
    let request = world.pool.lock("item:1").ttl(Duration::from_secs(30));
    tokio::select! {
        _ = request.run(body) => panic!("it stays"),
        () = ready.notified() => {}
    }
    assert!(!world.is_free("item:2").await, "it has its own lock");
    world.freed("item:1").await;
    drop(started);
    world.freed("item:2").await;
}

everywhere!(
    the_same_key_of_another_pool_is_another_lock,
    siblings_in_a_body_wait_for_each_other,
    a_spawned_task_waits_for_the_body_that_spawned_it,
    a_panic_puts_the_scope_back,
    a_drop_puts_the_scope_back,
    the_pool_of_a_scope_is_the_innermost,
    what_was_started_under_a_lock_does_not_keep_it,
);
