//! What a waiter gets, and when.

use dlock_runtime::{Holder, LockError, LockPool};
use tokio::time::Instant;

use crate::backends::{LONG, ms};

on_every_backend!(
    busy_says_who_holds_it_and_how_long_this_call_waited,
    a_wait_goes_to_its_end_and_not_far_beyond,
);

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
    assert!(error.to_string().contains("this process"), "{error}");
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
