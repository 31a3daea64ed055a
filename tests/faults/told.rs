//! What the log says while there is still time to do something: at the first sign of an outage, and once.

use std::time::Duration;

use dlock_harness::until;
use dlock_runtime::{LockGuard, LockPool};

use crate::lab::{CAP, LONG, Lab};
use crate::logs::{listen, warnings};

const RENEWED: Duration = Duration::from_millis(200);

/// Nobody can connect or renew, for as long as several attempts of either take.
async fn outage(lab: &Lab, pool: &LockPool, held: &LockGuard) {
    lab.proxy.refuse();
    lab.proxy.cut_all();
    for _ in 0..3 {
        pool.ping().await.unwrap_err();
    }
    until("renewals fail", CAP, async || {
        held.remaining() + RENEWED * 10 < LONG
    })
    .await;
    lab.proxy.pass();
    until("it is over", CAP, async || pool.ping().await.is_ok()).await;
}

#[tokio::test]
async fn an_outage_is_told_once_and_long_before_a_lease_is_lost() {
    listen();
    let lab = Lab::new();
    let pool = lab.pool().await;
    let held = pool.lock("told").ttl(LONG).renew_every(RENEWED);
    let held = held.acquire().await.unwrap();
    let address = lab.proxy.url();
    let says = [
        ["can't connect to redis", address.as_str()],
        ["can't renew a lock", "\"lock:told\""],
    ];
    for so_far in 0..2 {
        let before = held.remaining();
        outage(&lab, &pool, &held).await;
        assert!(held.is_held(), "{before:?} were left");
        // Renewed again, so that the next outage is another one for the guardian too.
        until("it is renewed", CAP, async || {
            held.remaining() + RENEWED * 3 > LONG
        })
        .await;
        for says in &says {
            let told = warnings(says);
            assert_eq!(told.len(), so_far + 1, "{told:#?}");
        }
    }
    held.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_shutdown_leaves_is_named() {
    listen();
    let pool = LockPool::connect("memory://").await.unwrap();
    let held = pool.lock("still:held").acquire().await.unwrap();
    drop(pool.lock("given:back").acquire().await.unwrap());
    let drained = pool.shutdown().await;
    assert_eq!((drained.held(), drained.unconfirmed()), (1, 0));
    assert_eq!(
        warnings(&["still held when shutdown", "\"lock:still:held\""]).len(),
        1
    );
    assert!(warnings(&["given:back"]).is_empty());
    held.release().await.unwrap();
}
