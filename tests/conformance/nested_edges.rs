//! Edge cases of nested and abandoned holds: what a body excludes that asks for it, what an inner
//! guard reports, and what happens when its body is abandoned.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use dlock_runtime::{LockError, LockGuard, LockPool, Released, Wait, current};
use dlock_tests::of_kind;
use tokio::time::Instant;

use crate::backends::{LONG, given_back, is_free};

on_every_backend!(
    an_exclusive_lock_inside_itself_would_deadlock,
    counts_when_inner_futures_are_dropped_or_panic,
    current_inside_a_joined_scope;
    scripts:
    permits_fair_locks_and_several_keys_inside_would_deadlock;
    many_holders:
    a_writer_and_another_owner_inside_would_deadlock,
    a_joined_reader_is_no_writer_to_downgrade,
    a_reader_nested_in_a_downgraded_writer,
);

async fn an_exclusive_lock_inside_itself_would_deadlock(pool: LockPool) {
    for holds in [&["x", "x"][..], &["again", "x"], &["x", "x k2", "x"]] {
        would_deadlock(&pool, holds, 0).await;
    }
}

async fn permits_fair_locks_and_several_keys_inside_would_deadlock(pool: LockPool) {
    for holds in [
        &["fair", "fair"][..],
        &["p:3/3", "p:1/3"],
        &["p:2/3", "p:2/3"],
        &["p:1/2", "p:1/2", "p:1/2"],
        &["x k", "x a+k"],
        &["x a+k", "x k"],
    ] {
        would_deadlock(&pool, holds, 0).await;
    }
}

async fn a_writer_and_another_owner_inside_would_deadlock(pool: LockPool) {
    for holds in [["r", "w"], ["w", "w"], ["o:a", "o:b"]] {
        would_deadlock(&pool, &holds, 0).await;
    }
}

/// Of these holds each is asked for inside the body of the one before it, from this one on: all are
/// given but the last, which is an error at once, however long it may wait.
fn would_deadlock<'a>(
    pool: &'a LockPool,
    holds: &'a [&'a str],
    from: usize,
) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(async move {
        let (kind, keys) = holds[from].split_once(' ').unwrap_or((holds[from], "k"));
        let request = || {
            let request = if keys.contains('+') {
                pool.lock_all(keys.split('+'))
            } else {
                pool.lock(keys)
            };
            match kind {
                "again" => request.reentrant().ttl(LONG),
                _ => of_kind(request, kind).ttl(LONG),
            }
        };
        if from + 1 < holds.len() {
            let body = async |held: &LockGuard| {
                would_deadlock(pool, holds, from + 1).await;
                held.verify().await.unwrap();
            };
            return request().run(body).await.unwrap();
        }
        let begun = Instant::now();
        for wait in [Wait::Once, Wait::For(LONG), Wait::Forever] {
            let error = request().wait(wait).acquire().await.unwrap_err();
            let is_told = matches!(error, LockError::WouldDeadlock { .. });
            assert!(is_told, "{holds:?}: {error:?}");
            assert_eq!(error.key().unwrap().as_str(), "lock:k");
            let nothing_is_taken = holds[0].contains('+') || is_free(pool, "a").await;
            assert!(nothing_is_taken, "{holds:?}");
        }
        assert!(begun.elapsed() < LONG / 3, "{holds:?}");
    })
}

async fn a_joined_reader_is_no_writer_to_downgrade(pool: LockPool) {
    let ran = pool.lock("k").write().ttl(LONG).run(async |outer| {
        let inner = pool.lock("k").read().acquire().await.unwrap();
        let answer = inner.downgrade().await;
        drop(inner);
        let p = pool.clone();
        let reader = tokio::spawn(async move {
            given_back(p.lock("k").read().try_acquire().await.unwrap()).await
        });
        (answer, reader.await.unwrap(), outer.is_held())
    });
    let (answer, others_read, _) = ran.await.unwrap();
    assert!(!others_read, "the writer is a reader by now, {answer:?}");
    assert!(
        matches!(answer, Err(LockError::Config { .. })),
        "{answer:?}"
    );
}

async fn counts_when_inner_futures_are_dropped_or_panic(pool: LockPool) {
    let lock = || pool.lock("k").reentrant().ttl(LONG);
    let counts = lock().run(async |outer| {
        let mut inner = Box::pin(lock().run(async |_| std::future::pending::<()>().await));
        poll_fn(|cx| Poll::Ready(inner.as_mut().poll(cx).is_pending())).await;
        let during = outer.hold_count();
        drop(inner);
        let dropped = outer.hold_count();
        let panics = std::panic::AssertUnwindSafe(lock().run(async |_| panic!("on purpose")));
        let panicked = futures_util::FutureExt::catch_unwind(panics).await.is_err();
        (
            during,
            dropped,
            panicked,
            outer.hold_count(),
            outer.is_held(),
        )
    });
    assert_eq!(counts.await.unwrap(), (2, 1, true, 1, true));
}

async fn current_inside_a_joined_scope(pool: LockPool) {
    let lock = || pool.lock("k").reentrant().ttl(LONG);
    let ran = lock().run(async |outer| {
        let inner = lock().run(async |inner| {
            (
                inner.fence(),
                current().unwrap().fence(),
                inner.hold_count(),
            )
        });
        let (inner, seen, count) = inner.await.unwrap();
        (
            outer.fence() == inner && seen == inner,
            count,
            current().unwrap().is_held(),
        )
    });
    assert_eq!(ran.await.unwrap(), (true, 2, true));
}

async fn a_reader_nested_in_a_downgraded_writer(pool: LockPool) {
    let ran = pool.lock("k").write().ttl(LONG).run(async |outer| {
        outer.downgrade().await.unwrap();
        let inner = pool.lock("k").read().acquire().await.unwrap();
        let write = pool.lock("k").write().acquire().await.unwrap_err();
        eprintln!("upgrade: {write}");
        assert!(matches!(write, LockError::WouldDeadlock { .. }));
        (
            inner.fence() == outer.fence(),
            inner.release().await.unwrap(),
            outer.verify().await.is_ok(),
        )
    });
    assert_eq!(ran.await.unwrap(), (true, Released::StillHeld(1), true));
}
