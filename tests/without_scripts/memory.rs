//! A server that is out of memory: up to Redis 7 it begins no transaction.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::Refusal;
use dlock_tests::refusal;

use crate::{CAP, LONG, connect, plain};

async fn out_of_memory(server: &RedisServer) {
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
}

/// Whether it refuses also transactions that need no memory.
async fn begins_no_transaction(server: &RedisServer) -> bool {
    let mut transaction = redis::pipe();
    transaction.atomic().cmd("DEL").arg("nothing");
    let ended = transaction.exec_async(&mut server.connect().await).await;
    ended.is_err()
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
    assert_eq!(refusal(&refused), Some(Refusal::OutOfMemory), "{refused:?}");
    let released = held.release().await;
    let waits = begins_no_transaction(&server).await;
    if waits {
        let error = released.unwrap_err();
        assert_eq!(refusal(&error), Some(Refusal::OutOfMemory), "{error:?}");
        assert!(server.pttl("lock:held").await > 0);
    } else {
        assert!(released.is_ok(), "{released:?}");
    }
    tokio::time::sleep(Duration::from_secs(7)).await; // longer than a lease without renewals
    renewed.verify().await.unwrap();
    renewed.extend(LONG).await.unwrap();
    assert!(server.pttl("lock:renewed").await > 50_000);
    let left = server.keys().await;
    let held = waits.then_some("lock:held");
    let expected = ["lock:@fence"]
        .into_iter()
        .chain(held)
        .chain(["lock:renewed"]);
    assert!(expected.eq(left.iter().map(String::as_str)), "{left:?}");

    server.cmd(&["CONFIG", "SET", "maxmemory", "0"]).await;
    until("the watchdog has released it", CAP, async || {
        server.pttl("lock:held").await == -2
    })
    .await;
    renewed.release().await.unwrap();
}
