//! A server that is out of memory: it begins no transaction.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{LockError, Refusal};

use crate::{CAP, LONG, connect, plain};

async fn out_of_memory(server: &RedisServer) {
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
}

#[tokio::test]
async fn leases_go_on_and_releases_wait_until_there_is_memory() {
    let server = RedisServer::start();
    let pool = connect(plain(server.url())).await;
    let renewed = pool.lock("renewed").ttl(Duration::from_secs(6));
    let renewed = renewed.renew_every(Duration::from_secs(1));
    let renewed = renewed.acquire().await.unwrap();
    let held = pool.lock("held").ttl(LONG).acquire().await.unwrap();
    out_of_memory(&server).await;

    let refused = pool.lock("k").try_acquire().await.unwrap_err();
    assert!(
        matches!(
            refused,
            LockError::Refused {
                reason: Refusal::OutOfMemory,
                ..
            }
        ),
        "{refused:?}"
    );
    let refused = held.release().await.unwrap_err();
    assert!(
        matches!(
            refused,
            LockError::Refused {
                reason: Refusal::OutOfMemory,
                ..
            }
        ),
        "{refused:?}"
    );
    assert!(server.pttl("lock:held").await > 0);
    tokio::time::sleep(Duration::from_secs(7)).await; // longer than a lease without renewals
    renewed.verify().await.unwrap();
    renewed.extend(LONG).await.unwrap();
    assert!(server.pttl("lock:renewed").await > 50_000);
    assert_eq!(
        server.keys().await,
        ["lock:@fence", "lock:held", "lock:renewed"]
    );

    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
    until("the watchdog has released it", CAP, async || {
        server.pttl("lock:held").await == -2
    })
    .await;
    renewed.release().await.unwrap();
}
