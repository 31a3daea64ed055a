//! A lock requested inside the body that holds it: counted if the call is `reentrant`, refused
//! otherwise.

use dlock_runtime::{LockPool, LockRequest, Released, Wait};

use crate::backends::{LONG, is_free, settled};

on_every_backend!(
    a_nested_call_holds_the_same_lease,
    the_lock_ends_with_the_outermost,
    a_nested_guard_is_given_back_once,
    siblings_are_somebody_else,
    a_nested_call_needs_no_free_queue,
);

async fn a_nested_call_holds_the_same_lease(pool: LockPool) {
    let request = pool.lock("k").ttl(LONG).reentrant();
    let fences = request.run(async |outer| {
        let inner = pool.lock("k").reentrant();
        inner
            .run(async |inner| {
                assert_eq!((inner.hold_count(), outer.hold_count()), (2, 2));
                assert!(inner.is_held());
                inner.verify().await.unwrap();
                (outer.fence(), inner.fence())
            })
            .await
            .map(|fences| (fences, outer.hold_count()))
    });
    let ((outer, inner), count) = fences.await.unwrap().unwrap();
    assert_eq!((outer, count), (inner, 1));
    assert!(pool.holder("k").await.unwrap().is_none());
}

async fn the_lock_ends_with_the_outermost(pool: LockPool) {
    let request = pool.lock("k").ttl(LONG);
    let inner = request.run(async |_| pool.lock("k").reentrant().acquire().await.unwrap());
    let inner = inner.await.unwrap(); // escaped from the body
    assert!(!inner.is_held() && inner.verify().await.is_err());
    assert!(inner.hold_count() <= 1, "after its end");
    assert!(is_free(&pool, "k").await);
    assert_eq!(inner.release().await.unwrap(), Released::NotHeld);
}

async fn a_nested_guard_is_given_back_once(pool: LockPool) {
    let request = pool.lock("k").ttl(LONG);
    let body = async |outer: &dlock_runtime::LockGuard| {
        let first = pool.lock("k").reentrant().acquire().await.unwrap();
        let second = pool.lock("k").reentrant().acquire().await.unwrap();
        assert_eq!(outer.hold_count(), 3);
        assert_eq!(first.release().await.unwrap(), Released::StillHeld(2));
        drop(second);
        assert_eq!(outer.hold_count(), 1);
        outer.verify().await.unwrap();
    };
    request.run(body).await.unwrap();
}

async fn siblings_are_somebody_else(pool: LockPool) {
    let one = async |request: LockRequest| {
        let body = async |lock: &dlock_runtime::LockGuard| {
            settled(&pool).await;
            lock.fence()
        };
        request.run(body).await.unwrap()
    };
    let request = || pool.lock("k").ttl(LONG).wait(LONG);
    for [first, second] in [
        [(); 2].map(|()| request()),
        [(); 2].map(|()| request().reentrant()),
    ] {
        let (first, second) = tokio::join!(one(first), one(second));
        assert_ne!(first, second, "each had it for itself");
    }
}

async fn a_nested_call_needs_no_free_queue(pool: LockPool) {
    let request = pool.lock("k").ttl(LONG);
    let waiting = std::cell::Cell::new(None);
    let body = async |_: &_| {
        let behind = pool.lock("k").wait(LONG);
        waiting.set(Some(tokio::spawn(async move {
            behind.acquire().await.map(drop)
        })));
        settled(&pool).await;
        let nested = pool.lock("k").reentrant().wait(Wait::Once);
        nested.run(async |_| ()).await.unwrap();
    };
    request.run(body).await.unwrap();
    waiting.take().unwrap().await.unwrap().unwrap();
}
