//! A current-thread runtime that is not run: between two `block_on`s none of its spawned tasks
//! runs, and the watchdog does not wait for that.

use std::time::Duration;

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::Config;
use tokio::runtime::Builder;

use crate::warm_pool;

/// The caller gives up with an acquire on its way, and with that the last `block_on` ends.
#[test]
fn an_acquire_that_was_given_up_is_cleaned_up_without_its_runtime() {
    let beside = Builder::new_multi_thread().enable_all().build().unwrap();
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let undriven = Builder::new_current_thread().enable_all().build().unwrap();
    let pool = undriven.block_on(warm_pool(Config::new(proxy.url())));

    let kept = proxy.on(Matcher::script().containing("lock:key"), Action::HoldReply);
    undriven.block_on(async {
        let acquire = pool.lock("key").ttl(Duration::from_secs(30)).acquire();
        let acquire = tokio::spawn(acquire);
        kept.seen().await;
        acquire.abort();
        let _ = acquire.await;
    });
    beside.block_on(async {
        assert!(server.pttl("lock:key").await > 20_000, "it was executed");
        until("it is gone", Duration::from_secs(3), async || {
            server.pttl("lock:key").await == -2
        })
        .await;
    });
}
