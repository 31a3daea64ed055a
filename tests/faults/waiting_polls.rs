//! Where pushes can't be received or can't be sent: waiters poll, that is logged once, and no push
//! is attempted.

use std::time::{Duration, Instant};

use dlock_harness::{Proxy, RedisServer, wait};
use dlock_runtime::{Config, LockPool};
use dlock_tests::locks;
use dlock_tests::recorded::{lines, record};

use crate::lab::{CAP, ITEM, ON_SERVER, SLACK};
use crate::waiters::{POLL, Turn, item, turn, waits};

/// A waiter without pushes polls every 100 ms and a tenth. One that polled once a second would need
/// 10 s for this many polls.
const POLLS: u64 = 10;
const POLLS_TAKE: Duration = Duration::from_secs(4);

const ROUNDS: usize = 3;

/// A user that may do everything except what `rights` deny.
async fn user(server: &RedisServer, rights: &[&str]) -> String {
    let ann = ["ACL", "SETUSER", "ann", "reset", "on", ">secret"];
    let all = ["~*", "allchannels", "+@all"];
    server.cmd(&[&ann, &all[..], rights].concat()).await;
    format!("redis://ann:secret@{}", server.addr())
}

async fn pool(url: impl Into<String>) -> LockPool {
    let config = Config::new(url).connect_timeout(CAP).command_timeout(CAP);
    LockPool::connect(config).await.unwrap()
}

async fn until_queued(server: &RedisServer) -> String {
    locks::until_queued(server, ITEM, 1, CAP).await;
    locks::queue(server, ITEM).await.remove(0)
}

/// A waiter polls, as often as is promised and no more.
async fn until_polled(server: &RedisServer) {
    let polls = async || server.commandstats("evalsha").await;
    let (before, begun) = (polls().await, Instant::now());
    dlock_harness::until("it has polled", CAP, async || {
        polls().await >= before + POLLS
    })
    .await;
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(100) * 8, "too often: {took:?}");
    assert!(took < wait::scaled(POLLS_TAKE), "{took:?}");
}

/// Waits over `url`, several times, without a push.
async fn check_polls(server: &RedisServer, url: String) {
    record();
    // A separate proxy: messages to the holder's pool are not counted below.
    let other_address = Proxy::start(server.addr());
    let (waiting, holding) = (pool(url).await, pool(other_address.url()).await);
    let published = server.commandstats("publish").await;
    for _ in 0..ROUNDS {
        let holder = item(&holding).acquire().await.unwrap();
        let waiter = waits(item(&waiting));
        let place = until_queued(server).await;
        let fields: Vec<&str> = place.split('|').collect();
        let [_, kind, _, address, lease, ..] = fields[..] else {
            panic!("{place}");
        };
        assert_eq!([kind, address, lease], ["x", "", "30000"], "{place}");
        until_polled(server).await;
        holder.release().await.unwrap();
        turn(waiter).await.guard.release().await.unwrap();
        // The next round waits over another connection.
        server.cmd(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    }
    let told_since = server.commandstats("publish").await - published;
    assert_eq!(told_since, 0, "nobody is told");
    let address = server.addr().to_string();
    let said = lines(&["no pushes", &address]);
    assert_eq!(said.len(), 1, "{said:?}");
}

#[tokio::test]
async fn over_resp2_waiters_poll() {
    let server = RedisServer::start();
    let url = format!("{}?protocol=resp2", server.url());
    check_polls(&server, url).await;
}

#[tokio::test]
async fn where_there_is_no_subscribe_waiters_poll() {
    let server = RedisServer::builder()
        .args(["--rename-command", "SUBSCRIBE", ""])
        .start();
    check_polls(&server, server.url()).await;
}

#[tokio::test]
async fn where_there_is_no_hello_waiters_poll() {
    let server = RedisServer::builder()
        .args(["--rename-command", "HELLO", ""])
        .start();
    check_polls(&server, server.url()).await;
}

#[tokio::test]
async fn a_user_without_the_channels_polls() {
    let server = RedisServer::start();
    let url = user(&server, &["resetchannels"]).await;
    check_polls(&server, url).await;
}

#[tokio::test]
async fn a_user_with_other_channels_polls() {
    let server = RedisServer::start();
    let url = user(&server, &["resetchannels", "&other@grant:*"]).await;
    check_polls(&server, url).await;
}

#[tokio::test]
async fn a_user_who_may_not_subscribe_polls() {
    let server = RedisServer::start();
    let url = user(&server, &["-subscribe"]).await;
    check_polls(&server, url).await;
}

/// The releasing user may not publish: the grant is made, and a poll finds it.
async fn check_untold(rights: &[&str]) {
    record();
    let server = RedisServer::start();
    let url = user(&server, rights).await;
    let (waiting, holding) = (pool(server.url()).await, pool(url).await);
    let holder = item(&holding).acquire().await.unwrap();
    let waiter = waits(item(&waiting));
    let place = until_queued(&server).await;
    let freed = Instant::now();
    holder.release().await.unwrap();
    let granted: String = server.ask(&["GET", ON_SERVER]).await;
    assert!(place.ends_with(&granted), "it is the waiter's at once");
    let Turn { at, guard } = turn(waiter).await;
    let took = at - freed;
    assert!(took < wait::scaled(POLL + SLACK * 2), "took {took:?}");
    let still: String = server.ask(&["GET", ON_SERVER]).await;
    assert_eq!(still, granted, "by the grant that was made");
    guard.release().await.unwrap();
}

#[tokio::test]
async fn a_grant_that_may_not_be_published_is_found_by_a_poll() {
    check_untold(&["-publish"]).await;
}

#[tokio::test]
async fn a_grant_on_a_channel_that_is_forbidden_is_found_by_a_poll() {
    check_untold(&["resetchannels", "&other@grant:*"]).await;
}
