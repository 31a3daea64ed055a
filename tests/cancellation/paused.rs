//! `memory://` and tokio's paused clock: waiting, renewal and loss happen in virtual time, and in
//! no real time.

use std::time::Duration;

use dlock_runtime::{LockError, LockGuard, LockPool, LostCause, current, distributed_lock};
use tokio::time::{Instant, sleep};

/// The longest time that a test may really take, and in virtual time.
const REAL_CAP: Duration = Duration::from_secs(20);
const CAP: Duration = Duration::from_secs(4 * 3600);

const TTL: Duration = Duration::from_secs(10);

/// Runs a test on a new pool, under both caps.
async fn on_memory(test: impl AsyncFnOnce(LockPool)) {
    let pool = LockPool::connect("memory://").await.unwrap();
    let begun = std::time::Instant::now();
    let ended = tokio::time::timeout(CAP, test(pool)).await;
    ended.expect("it ends");
    assert!(
        begun.elapsed() < dlock_harness::wait::scaled(REAL_CAP),
        "took real time"
    );
}

#[distributed_lock(key = "item", ttl = "10s", renew, guard = lock)]
async fn renewed(times: u32) -> Result<bool, LockError> {
    sleep(TTL * times).await;
    Ok(lock.is_held() && lock.verify().await.is_ok())
}

#[distributed_lock(key = "item", ttl = "10s")]
async fn cancelled(polled_at: &mut Vec<Duration>) -> Result<(), LockError> {
    let begun = Instant::now();
    loop {
        polled_at.push(begun.elapsed());
        sleep(Duration::from_millis(500)).await;
    }
}

#[distributed_lock(key = "item", ttl = "10s", on_lost = "finish", guard = lock)]
async fn finished() -> Result<(bool, LostCause), LockError> {
    let watch = tokio::spawn(lock.lost());
    sleep(TTL * 2).await;
    Ok((lock.is_held(), watch.await.unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_renewed_body_keeps_its_lock_for_many_ttls() {
    on_memory(async |pool| {
        let begun = Instant::now();
        let other = async {
            sleep(TTL * 4).await;
            pool.lock("item").try_acquire().await.unwrap().is_none()
        };
        let (kept, excluded) = tokio::join!(pool.scope(renewed(5)), other);
        assert!(kept.unwrap() && excluded);
        assert_eq!(begun.elapsed(), TTL * 5);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_without_renewal_is_stopped_at_the_deadline() {
    on_memory(async |pool| {
        let (begun, mut polled_at) = (Instant::now(), Vec::new());
        let lost = pool.scope(cancelled(&mut polled_at)).await.unwrap_err();
        let stopped = begun.elapsed();
        assert!(
            matches!(&lost, LockError::Lost { key, cause: LostCause::Deadline, finished: false, .. } if key.as_str() == "lock:item"),
            "{lost:?}"
        );
        assert!(stopped < TTL && stopped > TTL * 9 / 10, "{stopped:?}");
        let final_poll = *polled_at.last().unwrap();
        assert!(final_poll < stopped && stopped < final_poll + Duration::from_millis(501), "{final_poll:?}");
        assert!(pool.holder("item").await.unwrap().is_none(), "and it is free at once");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_may_finish_is_told() {
    on_memory(async |pool| {
        let begun = Instant::now();
        assert_eq!(
            pool.scope(finished()).await.unwrap(),
            (false, LostCause::Deadline)
        );
        assert_eq!(begun.elapsed(), TTL * 2);
    })
    .await;
}

/// An enclosing body that goes on without its lock refuses nobody.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_lost_is_no_deadlock() {
    #[distributed_lock(key = "item", ttl = "10s", on_lost = "finish")]
    async fn outlives(pool: LockPool) -> Result<(), LockError> {
        sleep(TTL * 2).await;
        assert!(current().is_some_and(|held| !held.is_held()));
        pool.lock("item").acquire().await?.release().await.map(drop)
    }
    on_memory(async |pool| pool.scope(outlives(pool.clone())).await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_it_was_said_to() {
    on_memory(async |pool| {
        let hour = Duration::from_secs(3600);
        let holder = pool.lock("item").ttl(TTL).renew().acquire().await.unwrap();
        let begun = Instant::now();
        let busy = pool.lock("item").wait(hour).acquire().await.unwrap_err();
        assert!(
            matches!(&busy, LockError::Busy { waited, .. } if *waited == hour),
            "{busy:?}"
        );
        assert_eq!(begun.elapsed(), hour);
        holder.verify().await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_gets_what_becomes_free() {
    on_memory(async |pool| {
        let holder = pool.lock("item").ttl(TTL).renew().acquire().await.unwrap();
        let begun = Instant::now();
        let release = async {
            sleep(TTL * 3).await;
            holder.release().await.unwrap();
        };
        let wait = pool.lock("item").wait(TTL * 6).acquire();
        let (next, ()) = tokio::join!(wait, release);
        assert!(next.unwrap().is_held());
        let waited = begun.elapsed();
        assert!(
            waited >= TTL * 3 && waited < TTL * 3 + Duration::from_secs(2),
            "{waited:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_renews_passes_on() {
    on_memory(async |pool| {
        let first = pool.lock("item").ttl(TTL).acquire().await.unwrap();
        let begun = Instant::now();
        let second = pool.lock("item").wait(TTL * 2).acquire().await.unwrap();
        assert!(
            begun.elapsed() <= TTL + Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
        assert!(!first.is_held() && second.is_held() && second.fence() > first.fence());
        assert!(first.verify().await.unwrap_err().is_lost());
    })
    .await;
}

/// The clean-up takes no virtual time either.
#[tokio::test(start_paused = true)]
async fn a_timeout_in_virtual_time_frees_the_lock() {
    on_memory(async |pool| {
        let body = async |_: &LockGuard| sleep(TTL * 10).await;
        let call = pool.lock("item").ttl(TTL).renew().run(body);
        tokio::time::timeout(TTL * 3, call).await.unwrap_err();
        assert!(pool.holder("item").await.unwrap().is_none());
    })
    .await;
}
