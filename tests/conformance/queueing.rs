//! The waiters of one process: whose turn it is, and how a waiter learns of it.

use std::sync::{Arc, Mutex};

use dlock_runtime::{Fence, Holder, LockError, LockGuard, LockPool, LostCause, Wait};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::backends::{LONG, grants_claims, is_free, ms, settled, soon, taken};

on_every_backend!(
    waiters_are_served_in_the_order_they_came,
    who_leaves_changes_nothing_for_those_who_stay,
    a_release_is_pushed_long_before_any_waiter_polls,
    a_lease_that_ends_lets_the_whole_queue_on,
    a_deadlock_is_told_at_once_while_others_wait;
    seconds:
    who_does_not_queue_never_goes_first,
    an_heir_of_an_entry_has_its_own_ttl_if_that_is_shorter;
    by_the_server:
    an_heir_of_an_entry_has_its_own_ttl_if_that_is_longer,
    a_body_that_was_granted_in_turn_keeps_its_lock,
);

type Turns = Arc<Mutex<Vec<(Fence, usize)>>>;

/// Whose turns it was, each with a higher fence than the one before.
fn numbers(turns: &Turns) -> Vec<usize> {
    let turns = turns.lock().unwrap();
    assert!(turns.is_sorted_by(|one, next| one.0 < next.0), "{turns:?}");
    turns.iter().map(|(_, number)| *number).collect()
}

/// Waits for `k`, writes its number down, and keeps the lock for a moment.
fn waiter(pool: &LockPool, turns: &Turns, number: usize) -> JoinHandle<()> {
    let request = pool.lock("k").ttl(LONG).wait(Wait::Forever);
    let turns = turns.clone();
    tokio::spawn(async move {
        let body = async |lock: &LockGuard| {
            turns.lock().unwrap().push((lock.fence(), number));
            tokio::time::sleep(ms(3)).await;
        };
        request.run(body).await.unwrap();
    })
}

async fn waiters_are_served_in_the_order_they_came(pool: LockPool) {
    let held = taken(&pool).await;
    let turns = Turns::default();
    let mut waiters = Vec::new();
    for number in 0..12 {
        waiters.push(waiter(&pool, &turns, number));
        if number % 3 == 0 {
            settled(&pool).await; // some come alone, some in groups
        }
    }
    settled(&pool).await;
    held.release().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(numbers(&turns), (0..12).collect::<Vec<_>>());
}

async fn who_leaves_changes_nothing_for_those_who_stay(pool: LockPool) {
    let held = taken(&pool).await;
    let turns = Turns::default();
    let waiters: Vec<_> = (0..6).map(|it| waiter(&pool, &turns, it)).collect();
    settled(&pool).await;
    for gone in [0, 3, 5] {
        waiters[gone].abort();
        settled(&pool).await;
    }
    // One more leaves because its wait is over: even behind other waiters, its error names the
    // holder.
    let error = pool.lock("k").wait(ms(100)).acquire().await.unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    let freed = Instant::now();
    held.release().await.unwrap();
    for (number, waiter) in waiters.into_iter().enumerate() {
        assert_eq!(waiter.await.is_err(), [0, 3, 5].contains(&number));
    }
    assert_eq!(numbers(&turns), [1, 2, 4]);
    assert!(freed.elapsed() < LONG / 3, "{:?}", freed.elapsed());
}

/// A poll comes one second after the waiter was queued, or after the previous poll. At least five
/// of nine turns were faster than that.
async fn a_release_is_pushed_long_before_any_waiter_polls(pool: LockPool) {
    let mut took = Vec::new();
    for _ in 0..9 {
        let held = pool.lock("k").acquire().await.unwrap(); // for 30 s
        let asked = Instant::now();
        let waiter = tokio::spawn(pool.lock("k").wait(LONG).acquire());
        settled(&pool).await;
        tokio::time::sleep(ms(30)).await;
        assert!(!waiter.is_finished());
        held.release().await.unwrap();
        let next = waiter.await.unwrap().unwrap();
        took.push(asked.elapsed());
        next.release().await.unwrap();
    }
    took.sort();
    assert!(took[4] < ms(700) && took[8] < ms(10_000), "{took:?}");
}

/// The release itself grants the lock to the waiter: at no moment can another client take it. On
/// memory in real time there is such a moment if the machine stalls for the 10 ms in which a local
/// hand-off is possible, because the waiter has not asked the server by then.
async fn who_does_not_queue_never_goes_first(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap(); // described as of this file
    let (start, started) = tokio::sync::oneshot::channel();
    let (end, ended) = tokio::sync::oneshot::channel::<()>();
    let waiter = tokio::spawn(pool.lock("k").ttl(LONG).wait(LONG).run(async |_| {
        start.send(()).unwrap();
        ended.await.unwrap();
    }));
    settled(&pool).await;
    for _ in 0..3 {
        assert!(!is_free(&pool, "k").await);
    }
    held.release().await.unwrap();
    assert!(!is_free(&pool, "k").await);
    match pool.lock("k").wait(Wait::Once).acquire().await {
        Err(LockError::Busy {
            holder: Holder::Process(holder),
            ..
        }) => assert!(holder.function().contains("queueing.rs"), "{holder:?}"),
        other => panic!("{other:?}"),
    }
    started.await.unwrap();
    end.send(()).unwrap();
    waiter.await.unwrap().unwrap();
    assert!(is_free(&pool, "k").await);
}

async fn a_lease_that_ends_lets_the_whole_queue_on(pool: LockPool) {
    let held = pool.lock("k").ttl(ms(400)).acquire().await.unwrap();
    let turns = Turns::default();
    let begun = Instant::now();
    let waiters: Vec<_> = (0..4).map(|it| waiter(&pool, &turns, it)).collect();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert!(!held.is_held());
    assert_eq!(numbers(&turns), [0, 1, 2, 3]);
    assert!(begun.elapsed() < LONG / 3, "{:?}", begun.elapsed());
}

/// A first waiter with the ttl `asked` goes when it is queued; a second one of the process, with
/// another ttl, inherits its queue entry and is granted the lock.
async fn inherited(pool: &LockPool, asked: u64, ttl: u64) -> LockGuard {
    let held = taken(pool).await;
    let request = pool.lock("k").ttl(ms(asked)).wait(LONG);
    let first = tokio::spawn(request.acquire());
    settled(pool).await;
    let request = pool.lock("k").ttl(ms(ttl)).wait(LONG);
    let heir = tokio::spawn(request.acquire());
    settled(pool).await;
    first.abort();
    settled(pool).await;
    held.release().await.unwrap();
    heir.await.unwrap().unwrap()
}

async fn an_heir_of_an_entry_has_its_own_ttl_if_that_is_longer(pool: LockPool) {
    let held = inherited(&pool, 2_500, 60_000).await;
    assert!(held.remaining() <= ms(2_500), "nobody promised more yet");
    soon("its lease is made whole", async || {
        held.remaining() > LONG / 2
    })
    .await;
    tokio::time::sleep(ms(2_700)).await;
    held.verify().await.unwrap();
    assert!(!is_free(&pool, "k").await);
}

async fn an_heir_of_an_entry_has_its_own_ttl_if_that_is_shorter(pool: LockPool) {
    let begun = Instant::now();
    let held = inherited(&pool, 60_000, 1_000).await;
    assert!(held.remaining() <= ms(1_000), "{:?}", held.remaining());
    assert_eq!(held.lost().await, LostCause::Deadline);
    let next = pool.lock("k").wait(LONG).acquire().await.unwrap();
    assert!(next.is_held());
    // By the heir's own ttl: the inherited grant would last 3 s, or 60 s.
    assert!(begun.elapsed() < LONG / 3, "{:?}", begun.elapsed());
}

/// On a server, a grant in turn lasts 3 s; the body takes longer than that.
async fn a_body_that_was_granted_in_turn_keeps_its_lock(pool: LockPool) {
    let body = async |lock: &LockGuard| {
        let granted = lock.remaining();
        tokio::time::sleep(ms(5_000)).await;
        lock.verify().await.unwrap();
        (granted, lock.remaining())
    };
    let (one, two) = (pool.lock("k"), pool.lock("renewed").renew());
    let held = [pool.lock("k"), pool.lock("renewed")].map(|it| it.ttl(LONG).acquire());
    let held = futures_util::future::try_join_all(held).await.unwrap();
    let bodies = [one, two].map(|it| tokio::spawn(it.wait(LONG).run(body)));
    settled(&pool).await;
    for held in held {
        held.release().await.unwrap();
    }
    for body in bodies {
        let (granted, left) = body.await.unwrap().unwrap();
        assert_eq!(granted < ms(3_000), grants_claims(&pool), "{granted:?}");
        assert!(left > ms(20_000), "{left:?}"); // of 30 s
    }
}

async fn a_deadlock_is_told_at_once_while_others_wait(pool: LockPool) {
    let turns = Turns::default();
    let (line, pool) = (turns.clone(), &pool);
    let ran = pool.lock("k").ttl(LONG).run(async |_| {
        let waiters: Vec<_> = (0..2).map(|it| waiter(pool, &line, it)).collect();
        settled(pool).await;
        let begun = Instant::now();
        for wait in [Wait::Forever, Wait::For(LONG), Wait::Once] {
            let error = pool.lock("k").wait(wait).acquire().await.unwrap_err();
            let told = matches!(error, LockError::WouldDeadlock { .. });
            assert!(told, "{error:?}");
        }
        assert!(begun.elapsed() < LONG / 6, "{:?}", begun.elapsed());
        waiters
    });
    for waiter in ran.await.unwrap() {
        waiter.await.unwrap();
    }
    assert_eq!(numbers(&turns), [0, 1]);
}
