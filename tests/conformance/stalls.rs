//! A caller that stalled: blocked by another task, starved, or suspended. It is still told what the
//! server says.

use std::thread;

use dlock_harness::{Proxy, RedisServer, until};
use dlock_runtime::LockPool;

use crate::backends::{LONG, ms, patient};

/// The executor continues after the wait and one more `command_timeout` are over; the last poll
/// still gets its answer.
#[tokio::test]
async fn a_waiter_that_stood_still_past_its_wait_is_told_busy() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let config = patient(proxy.url())
        .command_timeout(ms(2_000))
        .poll_interval(ms(1_000));
    let pool = LockPool::connect(config).await.unwrap();
    let _held = pool.lock("k").ttl(LONG).acquire().await.unwrap();
    let before = server.commandstats("evalsha").await;
    proxy.delay(ms(20));
    let waiter = tokio::spawn(pool.lock("k").wait(ms(1_000)).acquire());
    until("the first look", LONG, async || {
        server.commandstats("evalsha").await > before
    })
    .await;
    // The poll was answered; the waiter sleeps until the end of its wait.
    tokio::time::sleep(ms(200)).await;
    thread::sleep(ms(4_000));
    let error = waiter.await.unwrap().unwrap_err();
    assert!(error.is_busy(), "{error:?}");
}
