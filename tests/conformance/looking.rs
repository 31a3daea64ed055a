//! Reading without taking: `holder` and `ping`.

use std::time::SystemTime;

use dlock_runtime::{Holder, LockError, LockPool};

use crate::backends::{LONG, ms, settled, soon};

on_every_backend!(
    a_free_lock_has_no_holder,
    a_holder_is_described,
    a_key_that_is_kept_for_a_while_still_has_its_holder,
    an_impossible_key_has_no_holder,
    a_server_answers_a_ping;
    by_the_server:
    a_holder_that_waited_is_described,
);

async fn a_free_lock_has_no_holder(pool: LockPool) {
    assert_eq!(pool.holder("k").await.unwrap(), None);
    pool.lock("k").run(async |_| ()).await.unwrap();
    assert_eq!(pool.holder("k").await.unwrap(), None);
}

async fn a_holder_is_described(pool: LockPool) {
    let before = SystemTime::now() - ms(2);
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let Some(Holder::Process(holder)) = pool.holder(held.key()).await.unwrap() else {
        panic!("nobody");
    };
    assert_eq!(holder.pid(), std::process::id());
    assert!(holder.is_this_process() && !holder.host().is_empty());
    assert!(
        holder.function().contains("looking.rs:"),
        "{}",
        holder.function()
    );
    assert!(holder.since() >= before && holder.since() <= SystemTime::now());
    assert_eq!(pool.holder("k2").await.unwrap(), None);
}

async fn function_of_the_holder(pool: &LockPool) -> String {
    match pool.holder("k").await.unwrap() {
        Some(Holder::Process(holder)) => holder.function().to_owned(),
        other => panic!("{other:?}"),
    }
}

async fn a_holder_that_waited_is_described(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(pool.lock("k").ttl(LONG).wait(LONG).acquire());
    settled(&pool).await;
    let first = function_of_the_holder(&pool).await;
    held.release().await.unwrap();
    let second = function_of_the_holder(&pool).await;
    assert_ne!(second, first, "from the release on");
    let next = waiter.await.unwrap().unwrap();
    assert_eq!(function_of_the_holder(&pool).await, second);
    next.release().await.unwrap();
    assert_eq!(pool.holder("k").await.unwrap(), None);
}

async fn a_key_that_is_kept_for_a_while_still_has_its_holder(pool: LockPool) {
    let request = pool.lock("k").ttl(LONG).min_hold(ms(3_000));
    let held = request.acquire().await.unwrap();
    let holder = pool.holder("k").await.unwrap();
    held.release().await.unwrap();
    let kept = pool.holder("k").await.unwrap().unwrap().to_string();
    let holder = holder.unwrap();
    assert_eq!(
        kept,
        format!("nobody, but kept for the `min_hold` of {holder}")
    );
    soon("it is free", async || {
        pool.holder("k").await.unwrap().is_none()
    })
    .await;
}

async fn an_impossible_key_has_no_holder(pool: LockPool) {
    let error = pool.holder("").await.unwrap_err();
    assert!(matches!(error, LockError::InvalidKey { .. }), "{error:?}");
}

async fn a_server_answers_a_ping(pool: LockPool) {
    assert!(pool.ping().await.unwrap() < ms(5_000));
}
