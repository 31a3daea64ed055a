//! Many readers or one writer: which may hold the lock at the same time, who waits for whom, and
//! which of it is only local.

use dlock_runtime::{LockGuard, LockPool, Released, Wait};
use tokio::time::Instant;

use crate::backends::{LONG, is_free_for, one, settled, soon};

on_every_backend!(
    scripts:
    each_has_its_own_ttl,
    a_waiting_writer_stops_new_readers,
    all_readers_at_the_head_are_let_in_at_once;
    many_holders:
    many_read_at_once,
    a_writer_is_alone,
    each_reader_frees_only_itself,
    a_reader_that_tries_once_is_busy_while_a_writer_waits,
    a_writer_that_gives_up_lets_the_readers_on,
    a_nested_reader_does_not_wait_for_a_writer,
    a_reader_nested_in_a_writer_joins_it,
    a_downgrade_leaves_no_gap,
    a_downgraded_lock_is_renewed_and_freed_like_any,
    only_a_writer_can_be_downgraded,
    readers_are_checked_at_the_server,
);

async fn many_read_at_once(pool: LockPool) {
    let mut readers = Vec::new();
    for _ in 0..20 {
        readers.push(one(&pool, "r").acquire().await.unwrap());
    }
    assert!(readers.iter().all(LockGuard::is_held));
    let mut fences: Vec<_> = readers.iter().map(LockGuard::fence).collect();
    fences.dedup();
    assert_eq!(fences.len(), 20, "each has a number of its own");
    assert!(!is_free_for(&pool, "w").await);
    for reader in readers {
        assert_eq!(reader.release().await.unwrap(), Released::Freed);
    }
    assert!(is_free_for(&pool, "w").await);
}

async fn a_writer_is_alone(pool: LockPool) {
    let held = one(&pool, "w").acquire().await.unwrap();
    assert!(!is_free_for(&pool, "r").await);
    assert!(!is_free_for(&pool, "w").await);
    held.release().await.unwrap();
    assert!(is_free_for(&pool, "r").await);
}

async fn each_reader_frees_only_itself(pool: LockPool) {
    let first = one(&pool, "r").acquire().await.unwrap();
    let second = one(&pool, "r").acquire().await.unwrap();
    first.release().await.unwrap();
    second.verify().await.unwrap();
    assert!(!is_free_for(&pool, "w").await);
    second.release().await.unwrap();
    assert!(is_free_for(&pool, "w").await);
}

async fn a_waiting_writer_stops_new_readers(pool: LockPool) {
    let early = one(&pool, "r").acquire().await.unwrap();
    let waiting = tokio::spawn(one(&pool, "w").acquire());
    settled(&pool).await;
    let late = tokio::spawn(one(&pool, "r").acquire());
    settled(&pool).await;
    assert!(!late.is_finished(), "it would pass the writer");
    early.release().await.unwrap();
    let written = waiting.await.unwrap().unwrap();
    settled(&pool).await;
    assert!(!late.is_finished(), "the writer is alone");
    let fence = written.fence();
    written.release().await.unwrap();
    assert!(late.await.unwrap().unwrap().fence() > fence);
}

async fn a_reader_that_tries_once_is_busy_while_a_writer_waits(pool: LockPool) {
    let early = one(&pool, "r").acquire().await.unwrap();
    let waiting = tokio::spawn(one(&pool, "w").acquire());
    settled(&pool).await;
    let error = one(&pool, "r")
        .wait(Wait::Once)
        .acquire()
        .await
        .unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    early.release().await.unwrap();
    drop(waiting.await.unwrap().unwrap());
}

async fn all_readers_at_the_head_are_let_in_at_once(pool: LockPool) {
    let held = one(&pool, "w").acquire().await.unwrap();
    let mut readers = Vec::new();
    for _ in 0..8 {
        readers.push(tokio::spawn(one(&pool, "r").acquire()));
        settled(&pool).await;
    }
    let behind = tokio::spawn(one(&pool, "w").acquire());
    settled(&pool).await;
    held.release().await.unwrap();
    let mut together = Vec::new();
    for reader in readers {
        together.push(reader.await.unwrap().unwrap());
    }
    assert!(
        together.iter().all(LockGuard::is_held),
        "all at the same time"
    );
    assert!(!behind.is_finished());
    drop(together);
    behind.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_writer_that_gives_up_lets_the_readers_on(pool: LockPool) {
    let early = one(&pool, "r").acquire().await.unwrap();
    let waiting = tokio::spawn(one(&pool, "w").acquire());
    settled(&pool).await;
    let late = tokio::spawn(one(&pool, "r").acquire());
    settled(&pool).await;
    let begun = Instant::now();
    waiting.abort();
    let late = late.await.unwrap().unwrap();
    assert!(begun.elapsed() < LONG / 3);
    assert!(early.is_held() && late.is_held());
}

async fn a_nested_reader_does_not_wait_for_a_writer(pool: LockPool) {
    let outer = one(&pool, "r");
    let body = async |outer: &LockGuard| {
        let waiting = tokio::spawn(one(&pool, "w").acquire());
        settled(&pool).await;
        let nested = one(&pool, "r").wait(Wait::Once);
        let counts = nested.run(async |inner| (inner.hold_count(), inner.fence() == outer.fence()));
        (counts.await.unwrap(), waiting)
    };
    let (counts, waiting) = outer.run(body).await.unwrap();
    assert_eq!(counts, (2, true));
    waiting.await.unwrap().unwrap().release().await.unwrap();
}

async fn a_reader_nested_in_a_writer_joins_it(pool: LockPool) {
    let body = async |outer: &LockGuard| {
        let inner = one(&pool, "r").acquire().await.unwrap();
        assert_eq!(outer.hold_count(), 2);
        inner.release().await.unwrap()
    };
    let released = one(&pool, "w").run(body).await.unwrap();
    assert_eq!(released, Released::StillHeld(1));
}

async fn a_downgrade_leaves_no_gap(pool: LockPool) {
    let held = one(&pool, "w").acquire().await.unwrap();
    let fence = held.fence();
    let waiting = tokio::spawn(one(&pool, "w").acquire());
    settled(&pool).await;
    held.downgrade().await.unwrap();
    held.downgrade().await.unwrap(); // a second call changes nothing
    settled(&pool).await;
    assert!(!waiting.is_finished(), "no writer comes between");
    held.verify().await.unwrap();
    assert_eq!((held.fence(), held.is_held()), (fence, true));
    held.release().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().fence() > fence);
}

async fn a_downgraded_lock_is_renewed_and_freed_like_any(pool: LockPool) {
    let held = one(&pool, "w").acquire().await.unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| tokio::spawn(one(&pool, "r").acquire()))
        .collect();
    settled(&pool).await;
    held.downgrade().await.unwrap();
    for reader in readers {
        drop(reader.await.unwrap().unwrap());
    }
    held.extend(2 * LONG).await.unwrap();
    assert!(held.remaining() > LONG);
    assert_eq!(held.release().await.unwrap(), Released::Freed);
    soon("free to write", async || is_free_for(&pool, "w").await).await;
}

async fn only_a_writer_can_be_downgraded(pool: LockPool) {
    let held = one(&pool, "r").acquire().await.unwrap();
    let error = held.downgrade().await.unwrap_err();
    assert!(error.to_string().contains("`write`"), "{error}");
    assert!(held.is_held());
}

async fn each_has_its_own_ttl(pool: LockPool) {
    let short = one(&pool, "r").ttl(LONG).acquire().await.unwrap();
    let long = one(&pool, "r").ttl(3 * LONG).acquire().await.unwrap();
    assert!(short.remaining() <= LONG && long.remaining() > 2 * LONG);
}

async fn readers_are_checked_at_the_server(pool: LockPool) {
    let first = one(&pool, "r").acquire().await.unwrap();
    let other = one(&pool, "r").acquire().await.unwrap();
    first.verify().await.unwrap();
    other.release().await.unwrap();
    first.verify().await.unwrap();
}
