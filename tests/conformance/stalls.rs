//! A caller that stood still: blocked by another task, starved, suspended. What it is told is what the server says.

use std::thread;

use dlock_harness::{Proxy, RedisServer, until};
use dlock_runtime::LockPool;

use crate::backends::{LONG, ms, patient};

/// The executor comes back when the wait and one `command_timeout` more are over; the last look still gets its answer.
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
    tokio::time::sleep(ms(200)).await; // it was answered; the waiter sleeps to the end of its wait
    thread::sleep(ms(4_000));
    let error = waiter.await.unwrap().unwrap_err();
    assert!(error.is_busy(), "{error:?}");
}
