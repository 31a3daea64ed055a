//! What a waiter gets, and when.

use dlock_runtime::{Holder, LockError, LockPool, Wait};
use tokio::time::Instant;

use crate::backends::{LONG, ms};

on_every_backend!(
    a_waiter_gets_the_lock_after_a_release,
    busy_says_who_holds_it_and_how_long_this_call_waited,
    a_wait_goes_to_its_end_and_not_far_beyond,
    every_waiter_gets_its_turn,
);

async fn a_waiter_gets_the_lock_after_a_release(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiter = tokio::spawn(pool.lock("k").ttl(LONG).wait(LONG).acquire());
    tokio::time::sleep(ms(30)).await;
    assert!(!waiter.is_finished());
    let freed = Instant::now();
    held.release().await.unwrap();
    let next = waiter.await.unwrap().unwrap();
    assert!(next.is_held());
    assert!(
        freed.elapsed() < ms(10_000),
        "not by expiry: {:?}",
        freed.elapsed()
    );
}

async fn busy_says_who_holds_it_and_how_long_this_call_waited(pool: LockPool) {
    let _held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let error = pool.lock("k").wait(ms(120)).acquire().await.unwrap_err();
    assert_eq!(
        error.key().unwrap().as_str(),
        "lock:k",
        "with its namespace"
    );
    assert!(
        error
            .retry_after()
            .is_some_and(|after| after > ms(20_000) && after <= LONG)
    );
    let LockError::Busy {
        waited,
        holder: Holder::Process(holder),
        ..
    } = error
    else {
        panic!("{error:?}");
    };
    assert!(waited >= ms(120), "{waited:?}");
    assert_eq!(holder.pid(), std::process::id());
    assert!(holder.is_this_process());
    assert!(
        holder.function().contains("waiting.rs"),
        "{}",
        holder.function()
    );
}

async fn a_wait_goes_to_its_end_and_not_far_beyond(pool: LockPool) {
    let _held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    for wait in [1, 90, 350] {
        let begun = Instant::now();
        let error = pool.lock("k").wait(ms(wait)).acquire().await.unwrap_err();
        let took = begun.elapsed();
        assert!(error.is_busy(), "{error:?}");
        assert!(took >= ms(wait), "{took:?}");
        // One more `command_timeout` (500 ms by default), and slack for a busy machine.
        assert!(took <= ms(wait + 500 + 5_000), "{took:?}");
    }
}

async fn every_waiter_gets_its_turn(pool: LockPool) {
    let held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let waiters: Vec<_> = (0..10)
        .map(|_| {
            tokio::spawn(
                pool.lock("k")
                    .ttl(LONG)
                    .wait(Wait::Forever)
                    .run(async |lock| lock.fence()),
            )
        })
        .collect();
    tokio::time::sleep(ms(20)).await;
    held.release().await.unwrap();
    let mut fences = Vec::new();
    for waiter in waiters {
        fences.push(waiter.await.unwrap().unwrap());
    }
    fences.sort();
    fences.dedup();
    assert_eq!(fences.len(), 10);
}
