//! Several keys in one request: all or none, in whatever order they are named.

use dlock_runtime::{LockError, LockGuard, LockPool, LockRequest, Released, Wait};

use tokio::time::Instant;

use crate::backends::{LONG, is_free, ms, settled, soon, soon_free};

on_every_backend!(
    no_key_is_a_mistake;
    scripts:
    all_are_held_and_all_are_freed,
    none_is_kept_when_one_is_busy,
    one_key_is_as_good_as_any,
    a_dropped_guard_frees_all,
    readers_share_them;
    scripts_and_seconds:
    the_first_ones_last_until_the_last_one_is_had,
    each_lasts_its_whole_ttl_once_all_are_had,
    what_is_joined_keeps_the_lease_that_it_has,
    all_outlive_a_quick_body_by_their_min_hold,
    the_body_is_stopped_when_one_is_lost,
);

fn both(pool: &LockPool, keys: [&str; 2]) -> LockRequest {
    pool.lock_all(keys).ttl(LONG).wait(LONG)
}

async fn all_are_held_and_all_are_freed(pool: LockPool) {
    let held = both(&pool, ["b", "a"]).acquire().await.unwrap();
    let keys: Vec<_> = held.parts().map(|part| part.key().to_string()).collect();
    assert_eq!(keys, ["a", "b"]);
    assert!(!is_free(&pool, "a").await && !is_free(&pool, "b").await);
    held.verify().await.unwrap();
    assert_eq!(held.release().await.unwrap(), Released::Freed);
    assert!(is_free(&pool, "a").await && is_free(&pool, "b").await);
}

async fn none_is_kept_when_one_is_busy(pool: LockPool) {
    for wait in [Wait::Once, Wait::For(ms(200))] {
        let other = pool.lock("b").ttl(LONG).acquire().await.unwrap();
        let error = both(&pool, ["a", "b"])
            .wait(wait)
            .acquire()
            .await
            .unwrap_err();
        assert!(error.is_busy(), "{error:?}");
        assert_eq!(error.key().unwrap().as_str(), "lock:b");
        soon_free(&pool, "a").await;
        other.verify().await.unwrap();
        other.release().await.unwrap();
    }
}

async fn one_key_is_as_good_as_any(pool: LockPool) {
    let held = pool.lock_all(["a"]).acquire().await.unwrap();
    assert!(!is_free(&pool, "a").await);
    held.release().await.unwrap();
}

async fn no_key_is_a_mistake(pool: LockPool) {
    let none: [&str; 0] = [];
    let too_many: Vec<String> = (0..1001).map(|it| it.to_string()).collect();
    for request in [pool.lock_all(none), pool.lock_all(too_many)] {
        let error = request.acquire().await.unwrap_err();
        assert!(matches!(error, LockError::Config { .. }), "{error:?}");
    }
}

async fn a_dropped_guard_frees_all(pool: LockPool) {
    drop(both(&pool, ["a", "b"]).acquire().await.unwrap());
    soon("free", async || {
        is_free(&pool, "a").await && is_free(&pool, "b").await
    })
    .await;
    let running = both(&pool, ["a", "b"]);
    let body = async |_: &LockGuard| std::future::pending::<()>().await;
    let running = tokio::spawn(async move { running.run(body).await });
    soon("held", async || !is_free(&pool, "b").await).await;
    running.abort();
    soon("free", async || {
        is_free(&pool, "a").await && is_free(&pool, "b").await
    })
    .await;
}

async fn readers_share_them(pool: LockPool) {
    let one = pool.lock_all(["a", "b"]).read().acquire().await.unwrap();
    let other = pool.lock_all(["b", "a"]).read().acquire().await.unwrap();
    assert!(one.is_held() && other.is_held());
    let write = pool
        .lock_all(["a", "b"])
        .write()
        .try_acquire()
        .await
        .unwrap();
    assert!(write.is_none());
}

async fn the_first_ones_last_until_the_last_one_is_had(pool: LockPool) {
    let other = pool.lock("b").ttl(LONG).acquire().await.unwrap();
    let request = both(&pool, ["a", "b"]).ttl(ms(3_000)); // survives a stall of 2 s
    let waiting = tokio::spawn(request.acquire());
    settled(&pool).await;
    tokio::time::sleep(ms(4_500)).await;
    assert!(
        !is_free(&pool, "a").await,
        "it is kept while b is waited for"
    );
    other.release().await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    assert!(held.remaining() > ms(1_500), "{:?}", held.remaining());
    held.verify().await.unwrap();
}

/// The wait is long enough to count, but too short for renewals of the keys that are already held;
/// and there are more keys than one command renews.
async fn each_lasts_its_whole_ttl_once_all_are_had(pool: LockPool) {
    let other = pool.lock("z").ttl(LONG).acquire().await.unwrap();
    let keys = (0..120).map(|number| format!("k:{number:03}"));
    let request = pool.lock_all(keys.chain(["z".to_owned()]));
    let waiting = tokio::spawn(request.ttl(ms(20_000)).wait(LONG).acquire());
    soon("only the last one is waited for", async || {
        pool.holder("k:119").await.unwrap().is_some()
    })
    .await;
    tokio::time::sleep(ms(4000)).await;
    other.release().await.unwrap();
    let held = waiting.await.unwrap().unwrap();
    for part in held.parts() {
        let remaining = part.remaining();
        assert!(remaining > ms(18_000), "{}: {remaining:?}", part.key());
    }
    held.release().await.unwrap();
}

async fn what_is_joined_keeps_the_lease_that_it_has(pool: LockPool) {
    let outer = pool.lock("b").read().ttl(ms(6000));
    let body = async |outer: &LockGuard| {
        let other = pool.lock("a").write().ttl(LONG).acquire().await.unwrap();
        let waiting = both(&pool, ["a", "b"]).read().ttl(ms(10_000)).acquire();
        let frees = async {
            tokio::time::sleep(ms(1500)).await;
            other.release().await.unwrap();
        };
        let (held, ()) = tokio::join!(waiting, frees);
        let held = held.unwrap();
        assert!(outer.remaining() < ms(5000), "{:?}", outer.remaining());
        held.release().await.unwrap();
    };
    outer.run(body).await.unwrap();
}

async fn all_outlive_a_quick_body_by_their_min_hold(pool: LockPool) {
    let begun = Instant::now();
    let request = both(&pool, ["a", "b"]).min_hold(ms(700));
    request.run(async |_| ()).await.unwrap();
    let (mut a, mut b) = (None, None);
    soon("both are free", async || {
        for (key, freed) in [("a", &mut a), ("b", &mut b)] {
            if freed.is_none() && is_free(&pool, key).await {
                *freed = Some(begun.elapsed());
            }
        }
        a.is_some() && b.is_some()
    })
    .await;
    assert!(a.min(b) >= Some(ms(650)), "{a:?}, {b:?}");
}

async fn the_body_is_stopped_when_one_is_lost(pool: LockPool) {
    let request = both(&pool, ["a", "b"]).ttl(ms(300));
    let body = async |_: &LockGuard| std::future::pending::<()>().await;
    let error = request.run(body).await.unwrap_err();
    assert!(error.is_lost(), "{error:?}");
}
