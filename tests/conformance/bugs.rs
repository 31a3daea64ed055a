//! Bugs that locks of these kinds are prone to, each a test with its number in the fault list.
//! Those that need a cut wire, a dead process or a look at the server are in
//! `tests/faults/kinds.rs`; those that other systems had are in `bugs_elsewhere`.

use dlock_runtime::{LockGuard, LockPool, Released, Wait};
use tokio::task::LocalSet;

use crate::backends::{LONG, one, settled, soon_free};

on_every_backend!(
    f15_the_owner_is_the_scope_and_nobody_else,
    f15_siblings_in_one_scope_are_counted_together;
    scripts:
    f58_opposite_orders_twice_named_and_nobody_waits,
    f58_a_thousand_keys,
);

async fn f15_the_owner_is_the_scope_and_nobody_else(pool: LockPool) {
    let again = |pool: &LockPool| {
        let request = pool.lock("k").reentrant().wait(Wait::Once);
        async move { request.acquire().await.map(drop) }
    };
    let body = async |lock: &LockGuard| {
        again(&pool).await.unwrap();
        tokio::task::yield_now().await; // perhaps continues on another thread
        again(&pool).await.unwrap();
        assert_eq!(lock.hold_count(), 1);

        let spawned = tokio::spawn(again(&pool)).await.unwrap();
        assert!(spawned.unwrap_err().is_busy(), "a spawned task");
        let local = LocalSet::new();
        let request = again(&pool);
        let local = local.run_until(async { tokio::task::spawn_local(request).await });
        assert!(local.await.unwrap().unwrap_err().is_busy(), "a local task");
        let (inside, here) = (again(&pool), tokio::runtime::Handle::current());
        let blocking = tokio::task::spawn_blocking(move || here.block_on(inside));
        assert!(
            blocking.await.unwrap().unwrap_err().is_busy(),
            "a blocking task"
        );
    };
    one(&pool, "x").reentrant().run(body).await.unwrap();
}

async fn f15_siblings_in_one_scope_are_counted_together(pool: LockPool) {
    let body = async |outer: &LockGuard| {
        let nested = async || {
            let request = pool.lock("k").reentrant();
            let body = async |inner: &LockGuard| {
                let most = inner.hold_count();
                settled(&pool).await;
                most.max(inner.hold_count())
            };
            request.run(body).await.unwrap()
        };
        let (one, other) = tokio::join!(nested(), nested());
        (one.max(other), outer.hold_count())
    };
    let counts = one(&pool, "x").reentrant().run(body).await.unwrap();
    assert_eq!(counts, (3, 1), "both at once, and then neither");
}

async fn f58_opposite_orders_twice_named_and_nobody_waits(pool: LockPool) {
    let orders = [["a", "b", "c", "a"], ["c", "b", "a", "c"]];
    let tasks = (0..20).map(|task| {
        let request = pool.lock_all(orders[task % 2]).ttl(LONG).wait(LONG);
        let body = async |lock: &LockGuard| {
            tokio::task::yield_now().await;
            lock.parts().count()
        };
        tokio::spawn(async move { request.run(body).await })
    });
    for task in tasks.collect::<Vec<_>>() {
        assert_eq!(task.await.unwrap().unwrap(), 3);
    }
}

async fn f58_a_thousand_keys(pool: LockPool) {
    let keys = || (0..1000).map(|number| format!("account:{number}"));
    let held = pool.lock_all(keys()).ttl(LONG).acquire().await.unwrap();
    assert_eq!(held.parts().count(), 1000);
    let again = pool.lock_all(keys().rev()).try_acquire().await.unwrap();
    assert!(again.is_none());
    held.verify().await.unwrap();
    assert_eq!(held.release().await.unwrap(), Released::Freed);
    // All but one are free: none of them stays locked.
    let last = pool.lock("account:999").ttl(LONG).acquire().await.unwrap();
    let busy = pool.lock_all(keys()).wait(Wait::Once).acquire().await;
    assert!(busy.unwrap_err().is_busy());
    soon_free(&pool, "account:0").await;
    drop(last);
}
