//! A runtime that comes, takes a few locks, and ends in the middle of others.

use std::future::pending;
use std::time::Duration;

use dlock_runtime::{LockError, LockPool, distributed_lock};
use dlock_tests::Seeded;

/// The lease is the default, 30 s, and the wait is shorter: a key that a runtime left behind is an
/// error for the next one.
#[distributed_lock(key = "<key>", wait = "20s", renew, guard = lock)]
pub(crate) async fn turn(key: &str, pause: Duration) -> Result<u64, LockError> {
    tokio::time::sleep(pause).await;
    lock.verify().await?;
    Ok(lock.fence().get())
}

/// How many keys of its own a runtime leaves in flight.
pub(crate) const KEYS_LEFT: u64 = 12;

/// Takes turns with all other runtimes at one key, and at one of its own. No call may fail.
pub(crate) async fn work(pool: &LockPool, number: u64, random: &mut Seeded) {
    let own = format!("own:{number}");
    for _ in 0..4 {
        let pause = Duration::from_micros(random.between(50, 2000));
        let (all, own) = tokio::join!(
            pool.scope(turn("all", pause)),
            pool.scope(turn(&own, pause))
        );
        let _fences = (all.unwrap(), own.unwrap());
    }
}

/// Starts a guard and two locked bodies at the shared key, and some guards at keys that no other
/// runtime uses; none of them ends by itself. How far they have come when the caller returns, and
/// its runtime ends, depends on a few random milliseconds.
pub(crate) async fn leave_in_flight(pool: &LockPool, number: u64, random: &mut Seeded) {
    let own = (0..KEYS_LEFT).map(|it| format!("left:{number}:{it}"));
    for key in own.chain(["all".to_owned()]) {
        let (pool, pause) = (pool.clone(), random.between(0, 4000));
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(pause)).await;
            let _guard = pool.lock(key.as_str()).renew().acquire().await;
            pending::<()>().await;
        });
    }
    for _ in 0..2 {
        let pool = pool.clone();
        tokio::spawn(async move { pool.scope(turn("all", Duration::from_secs(3600))).await });
    }
    tokio::time::sleep(Duration::from_micros(random.between(0, 4000))).await;
}
