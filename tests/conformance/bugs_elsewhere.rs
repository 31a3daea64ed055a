//! Bugs that other systems had with these kinds of lock, each a test with its project and the
//! number of its issue.
//!
//! Those that need a cut wire, a dead process or a look at the server are in
//! `tests/faults/kinds.rs`.

use std::sync::Arc;

use dlock_runtime::{LockError, LockGuard, LockPool, Released, Wait, distributed_lock};
use dlock_tests::{KINDS, of_kind};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backends::{LONG, is_free_for, ms, one, settled, soon};

on_every_backend!(
    seconds:
    redisson_84_a_nested_call_after_the_loss_takes_nothing;
    scripts:
    redisson_543_a_single_try_of_every_kind_never_waits,
    redisson_6510_many_keys_of_every_kind_leave_nothing,
    spring_integration_3700_a_lost_race_is_no_refusal;
    scripts_and_seconds:
    redisson_2444_waits_that_ended_leave_nothing;
    many_holders:
    redisson_3750_one_owner_in_many_tasks,
    redisson_7251_nested_reads_leave_no_entries,
);

async fn redisson_543_a_single_try_of_every_kind_never_waits(pool: LockPool) {
    for (kind, held) in KINDS {
        let holder = one(&pool, held).acquire().await.unwrap();
        let waiting = tokio::spawn(one(&pool, kind).acquire());
        settled(&pool).await;
        let begun = Instant::now();
        assert!(one(&pool, kind).try_acquire().await.unwrap().is_none());
        assert!(begun.elapsed() < LONG / 3, "{kind}");
        holder.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
        soon("free", async || pool.holder("k").await.unwrap().is_none()).await;
    }
}

async fn redisson_3750_one_owner_in_many_tasks(pool: LockPool) {
    let all = Arc::new(tokio::sync::Barrier::new(10));
    let tasks = (0..10).map(|_| {
        let (request, all) = (one(&pool, "o:a"), all.clone());
        tokio::spawn(async move {
            let guard = request.acquire().await.unwrap();
            all.wait().await; // all at the same time, from different tasks
            guard.release().await.unwrap()
        })
    });
    let mut left = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        left.push(match task.await.unwrap() {
            Released::StillHeld(rest) => rest,
            Released::Freed => 0,
            other => panic!("{other:?}"),
        });
    }
    left.sort_unstable();
    assert_eq!(left, (0..10).collect::<Vec<_>>());
    assert!(is_free_for(&pool, "o:b").await);
}

/// The suite checks what is left on the server.
async fn redisson_6510_many_keys_of_every_kind_leave_nothing(pool: LockPool) {
    for (kind, _) in KINDS {
        for number in 0..20 {
            let request = of_kind(pool.lock(format!("{kind}:{number}")), kind);
            request.run(async |_| ()).await.unwrap();
        }
    }
}

async fn redisson_7251_nested_reads_leave_no_entries(pool: LockPool) {
    let nested = async |_: &LockGuard| {
        let deeper = one(&pool, "r").run(async |_| one(&pool, "r").acquire().await.unwrap());
        deeper.await.unwrap().release().await.unwrap();
    };
    one(&pool, "r").run(nested).await.unwrap();
    assert!(is_free_for(&pool, "w").await);
}

/// A waiter that loses a race for a freed lock goes on waiting until its own wait is over.
async fn spring_integration_3700_a_lost_race_is_no_refusal(pool: LockPool) {
    for (kind, held) in KINDS {
        let holder = one(&pool, held).acquire().await.unwrap();
        let tasks = (0..10).map(|_| {
            let request = one(&pool, kind);
            tokio::spawn(async move { request.run(async |_| tokio::task::yield_now().await).await })
        });
        let tasks: Vec<_> = tasks.collect();
        settled(&pool).await;
        holder.release().await.unwrap();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
    }
}

#[distributed_lock(key = "k", ttl = "300ms", reentrant, on_lost = "finish", guard = lock, pool = pool)]
async fn nests_after_its_loss(
    pool: &LockPool,
    lost: &Notify,
    taken: &Notify,
) -> Result<(), LockError> {
    lock.lost().await;
    lost.notify_one();
    taken.notified().await;
    let nested = pool.lock("k").reentrant().run(async |_| ()).await;
    let error = nested.unwrap_err();
    assert!(error.is_lost() || error.is_busy(), "{error:?}");
    let again = pool.lock("k").reentrant().wait(Wait::Once).acquire().await;
    assert!(!again.is_ok_and(|guard| guard.is_held()));
    Ok(())
}

async fn redisson_84_a_nested_call_after_the_loss_takes_nothing(pool: LockPool) {
    let (lost, taken) = (Notify::new(), Notify::new());
    let other_comes = async {
        lost.notified().await;
        let other = one(&pool, "x").acquire().await.unwrap();
        taken.notify_one();
        other
    };
    let (nested, other) = tokio::join!(nests_after_its_loss(&pool, &lost, &taken), other_comes);
    nested.unwrap();
    other.verify().await.unwrap();
    other.release().await.unwrap();
}

/// Also #4100: a set of timeouts that is never cleaned. The suite checks after the case what a wait
/// has left.
async fn redisson_2444_waits_that_ended_leave_nothing(pool: LockPool) {
    let held = one(&pool, "p:3/3").acquire().await.unwrap();
    let waits = (0..40).map(|_| tokio::spawn(one(&pool, "p:1/3").wait(ms(300)).acquire()));
    for wait in waits.collect::<Vec<_>>() {
        assert!(wait.await.unwrap().unwrap_err().is_busy());
    }
    held.release().await.unwrap();
    // A waiter that gives up is removed from the queue in the background.
    let free = async || is_free_for(&pool, "p:3/3").await;
    soon("no place of nobody's is in the way", free).await;
}
