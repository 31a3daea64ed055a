//! Tests of the sockets: protocol version, unix sockets, and small packets that are sent without
//! delay.

use std::time::{Duration, Instant};

use dlock_harness::{Action, Matcher, Proxy, RedisServer, until};
use dlock_runtime::{LockPool, Released};

use crate::connect;

const CAP: Duration = Duration::from_secs(10);

/// The `resp=` of each connection except the one that asks. Redis 6 does not tell it, but only a
/// connection with RESP3 can be subscribed and in use for commands.
async fn protocols(server: &RedisServer) -> Vec<String> {
    let list: String = server.ask(&["CLIENT", "LIST"]).await;
    let others = list.lines().filter(|line| !line.contains(" cmd=client"));
    let protocol = |line: &str| {
        let field = |name| {
            let mut fields = line.split(' ');
            fields.find_map(|field| field.strip_prefix(name))
        };
        let by_subscription = || match field("sub=") {
            Some("0") => "2",
            _ => "3",
        };
        field("resp=").unwrap_or_else(by_subscription).to_owned()
    };
    others.map(protocol).collect()
}

/// Uses the caller's connection and the watchdog's; both must speak `expected`.
async fn check_works_over(server: &RedisServer, pool: &LockPool, expected: &str) {
    let lock = || pool.lock("key").ttl(Duration::from_secs(30));
    let renewals = async || server.commandstats("pexpire").await;
    let before = renewals().await;
    let guard = lock()
        .renew_every(Duration::from_millis(50))
        .acquire()
        .await
        .unwrap();
    // The server says that the lock is busy.
    assert!(lock().try_acquire().await.unwrap().is_none());
    until("it was renewed some times", CAP, async || {
        renewals().await >= before + 6
    })
    .await;
    guard.verify().await.unwrap();
    // The server closes the connections of the questions above with a delay.
    until(
        "two connections speak it, and there is no other",
        CAP,
        async || protocols(server).await == [expected, expected],
    )
    .await;
    let heard: Vec<String> = server.ask(&["PUBSUB", "CHANNELS"]).await;
    assert_eq!(heard.is_empty(), expected == "2", "{heard:?}");
    assert_eq!(guard.release().await.unwrap(), Released::Freed);
    drop(lock().acquire().await.unwrap());
    until("a dropped guard's key is gone", CAP, async || {
        server.keys().await == ["lock:@fence"]
    })
    .await;
    pool.ping().await.unwrap();
}

#[tokio::test]
async fn connections_speak_resp3() {
    let server = RedisServer::start();
    let pool = connect(server.url()).await;
    check_works_over(&server, &pool, "3").await;
}

#[tokio::test]
async fn connections_speak_resp2_when_told_to() {
    let server = RedisServer::start();
    let pool = connect(format!("{}?protocol=resp2", server.url())).await;
    check_works_over(&server, &pool, "2").await;
}

#[tokio::test]
async fn a_unix_socket_works_like_tcp() {
    let server = RedisServer::builder().unix_socket().start();
    let pool = connect(server.unix_url().unwrap()).await;
    check_works_over(&server, &pool, "3").await;
    let list: String = server.ask(&["CLIENT", "LIST"]).await;
    // The third is the one that asks for the list.
    let over_unix = list.lines().filter(|line| line.contains("redis.sock"));
    let over_unix = over_unix.filter(|line| !line.contains("cmd=client"));
    assert_eq!(over_unix.count(), 2, "{list}");
}

#[tokio::test]
async fn a_unix_socket_works_with_a_password() {
    let server = RedisServer::builder()
        .password("s3cret")
        .unix_socket()
        .start();
    let pool = connect(server.unix_url().unwrap()).await;
    check_works_over(&server, &pool, "3").await;
}

/// How long a command takes to reach the server while the previous one is not acknowledged. With
/// Nagle's algorithm it waits for the delayed acknowledgement of the other side (40 ms on Linux),
/// which has no reply to send it with.
async fn behind_an_unanswered_command(proxy: &Proxy, pool: &LockPool) -> Duration {
    let unanswered = proxy.on(Matcher::command("PING"), Action::HoldReply);
    let behind = proxy.on(Matcher::command("GETRANGE"), Action::Signal);
    let ping = pool.ping();
    let get = async {
        unanswered.seen().await;
        let sent = Instant::now();
        let arrival = async {
            behind.seen().await;
            let took = sent.elapsed();
            proxy.release_held();
            took
        };
        let (holder, took) = tokio::join!(pool.holder("key"), arrival);
        assert_eq!(holder.unwrap(), None);
        took
    };
    let (pinged, took) = tokio::join!(ping, get);
    pinged.unwrap();
    proxy.clear_triggers();
    took
}

#[tokio::test]
async fn a_command_does_not_wait_for_the_acknowledgement_of_the_one_before() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.addr());
    let pool = connect(proxy.url()).await;
    let mut times = Vec::new();
    for _ in 0..15 {
        // After several exchanges of question and answer, the kernel delays acknowledgements,
        // because it expects a reply to send them with.
        for _ in 0..10 {
            pool.holder("key").await.unwrap();
        }
        times.push(behind_an_unanswered_command(&proxy, &pool).await);
    }
    times.sort();
    // On a busy machine, only the quickest times show what the socket does.
    println!("{times:?}");
    assert!(times[2] < Duration::from_millis(20), "{times:?}");
}
