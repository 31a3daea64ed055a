//! The verbs of the proxy.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::wire::{CAP, Wire, assert_refused, lab, request};
use crate::proxy::{Action, Matcher, Proxy};
use crate::wait::until;

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let (_server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    wire.send(&["INCR a", "INCR a", "PING"]).await;
    assert_eq!(wire.reply().await, ":1\r\n");
    assert_eq!(wire.reply().await, ":2\r\n");
    assert_eq!(wire.reply().await, "+PONG\r\n");
    assert_eq!((proxy.live(), proxy.accepted()), (1, 1));
    drop(wire);
    until("it is closed", CAP, async || proxy.live() == 0).await;
}

#[tokio::test]
async fn a_client_library_works_through_it() {
    let (server, proxy) = lab();
    let client = redis::Client::open(proxy.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let script = redis::Script::new("return redis.call('SET', KEYS[1], ARGV[1])");
    let seen = proxy.on(Matcher::script().containing("key:1"), Action::Signal);
    let _: () = script
        .key("key:1")
        .arg(1)
        .invoke_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(server.keys().await, ["key:1"]);
    assert!(seen.fired() == 1 && seen.count() >= 1);
}

#[test]
fn it_needs_no_runtime_of_the_test() {
    let (_server, proxy) = lab();
    let mut stream = std::net::TcpStream::connect(proxy.addr()).unwrap();
    stream.write_all(&request("PING")).unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

/// When the second request is seen, the first was swallowed. That the read ends with the connection
/// shows that no byte ever came back.
#[tokio::test]
async fn a_black_hole_swallows_and_is_no_end() {
    let (server, proxy) = lab();
    let mut before = Wire::to(&proxy).await;
    assert_eq!(before.ask("PING").await, "+PONG\r\n");
    proxy.blackhole();
    let mut after = Wire::to(&proxy).await;
    let seen = proxy.on(Matcher::command("GET").nth(2), Action::Signal);
    before.send(&["INCR a", "GET x"]).await;
    after.send(&["INCR b", "GET x"]).await;
    seen.seen().await;
    server.kill9();
    server.restart_empty();
    assert_eq!(proxy.live(), 2);
    proxy.pass();
    assert_eq!(before.until_end().await, "");
    assert_eq!(after.until_end().await, "");
    assert!(server.keys().await.is_empty());
    assert_eq!(Wire::to(&proxy).await.ask("PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn a_connection_that_lost_nothing_survives_a_black_hole() {
    let (_server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    assert_eq!(wire.ask("PING").await, "+PONG\r\n");
    proxy.blackhole();
    proxy.pass();
    assert_eq!(wire.ask("INCR a").await, ":1\r\n");
}

#[tokio::test]
async fn dropped_replies_were_executed() {
    let (server, proxy) = lab();
    proxy.drop_replies();
    let mut wire = Wire::to(&proxy).await;
    // When the second reply is held, the first was swallowed.
    let second = proxy.on(Matcher::command("INCR").nth(2), Action::HoldReply);
    wire.send(&["INCR a", "INCR a"]).await;
    second.seen().await;
    assert_eq!(server.ask::<u64>(&["GET", "a"]).await, 2);
    proxy.pass();
    assert_eq!(wire.until_end().await, "");
}

#[tokio::test]
async fn dropped_requests_let_messages_pass() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    assert!(wire.ask("SUBSCRIBE c").await.contains("subscribe"));
    proxy.drop_requests();
    let second = proxy.on(Matcher::command("SUBSCRIBE").nth(2), Action::Signal);
    wire.send(&["SUBSCRIBE d", "SUBSCRIBE e"]).await;
    second.seen().await;
    server.cmd(&["PUBLISH", "d", "lost"]).await;
    server.cmd(&["PUBLISH", "c", "hello"]).await;
    assert!(wire.reply().await.ends_with("hello\r\n"));
    proxy.pass();
    assert_eq!(wire.until_end().await, "");
}

#[tokio::test]
async fn a_stalled_wire_delivers_later() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    assert_eq!(wire.ask("PING").await, "+PONG\r\n");
    proxy.stall();
    let seen = proxy.on(Matcher::command("INCR"), Action::Signal);
    wire.send(&["INCR a", "INCR a"]).await;
    seen.seen().await;
    assert!(server.keys().await.is_empty());
    proxy.stall_replies();
    until("it is executed", CAP, async || server.keys().await == ["a"]).await;
    proxy.pass();
    assert_eq!(wire.reply().await, ":1\r\n");
    assert_eq!(wire.reply().await, ":2\r\n");
}

#[tokio::test]
async fn cut_all_spares_only_the_future() {
    let (_server, proxy) = lab();
    let (mut one, mut two) = (Wire::to(&proxy).await, Wire::to(&proxy).await);
    assert_eq!(one.ask("PING").await, "+PONG\r\n");
    assert_eq!(two.ask("PING").await, "+PONG\r\n");
    proxy.cut_all();
    assert_eq!(proxy.live(), 0);
    assert_eq!(one.until_end().await, "");
    assert_eq!(two.until_end().await, "");
    assert_eq!(Wire::to(&proxy).await.ask("PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn refused_are_only_the_new() {
    let (_server, proxy) = lab();
    let mut live = Wire::to(&proxy).await;
    assert_eq!(live.ask("PING").await, "+PONG\r\n");
    proxy.refuse();
    assert_refused(&proxy).await;
    assert_eq!(live.ask("PING").await, "+PONG\r\n");
    proxy.pass();
    assert_eq!(Wire::to(&proxy).await.ask("PING").await, "+PONG\r\n");
    assert_eq!(proxy.accepted(), 3);
}

#[tokio::test]
async fn each_way_is_delayed() {
    let (_server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let delay = Duration::from_millis(30);
    proxy.delay(delay);
    let start = Instant::now();
    assert_eq!(wire.ask("PING").await, "+PONG\r\n");
    assert!(start.elapsed() >= 2 * delay);
}

#[tokio::test]
async fn without_a_server_a_client_is_reset() {
    let (server, proxy) = lab();
    server.kill9();
    assert_refused(&proxy).await;
    server.restart_empty();
    assert_eq!(Wire::to(&proxy).await.ask("PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn a_dropped_proxy_closes_everything() {
    let (_server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    assert_eq!(wire.ask("PING").await, "+PONG\r\n");
    let addr = proxy.addr();
    drop::<Proxy>(proxy);
    assert_eq!(wire.until_end().await, "");
    // Another test's proxy may have the port for a while.
    until("its port is refused", Duration::from_secs(30), async || {
        std::net::TcpStream::connect(addr).is_err()
    })
    .await;
}
