//! Actions that cut a connection, at every byte of a request or reply.

use super::wire::{CAP, Wire, lab, request};
use crate::proxy::{Action, Matcher};
use crate::wait::until;

#[tokio::test]
async fn cut_before_forwards_only_what_came_before() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let cut = proxy.on(Matcher::command("set").containing("b"), Action::CutBefore);
    wire.send(&["SET a 1", "SET b 1", "SET c 1"]).await;
    let replies = wire.until_end().await;
    assert!("+OK\r\n".starts_with(&replies), "{replies:?}");
    until("the first arrived", CAP, async || {
        server.keys().await == ["a"]
    })
    .await;
    assert_eq!((cut.fired(), cut.count()), (1, 1));
    until("it ends", CAP, async || clients(&server).await == 1).await;
    assert_eq!(server.keys().await, ["a"]);
}

#[tokio::test]
async fn cut_inside_at_every_byte() {
    let (server, proxy) = lab();
    let set = "SET key value";
    let length = request(set).len();
    for n in 0..=length {
        let mut wire = Wire::to(&proxy).await;
        let cut = proxy.on(Matcher::command("SET"), Action::CutInside(n));
        wire.send(&[set, "SET other value"]).await;
        assert_eq!(wire.until_end().await, "", "{n}");
        assert_eq!(cut.fired(), 1, "{n}");
        until("it ends", CAP, async || clients(&server).await == 1).await;
        let expected: &[&str] = if n == length { &["key"] } else { &[] };
        assert_eq!(server.keys().await, expected, "{n}");
        proxy.clear_triggers();
    }
}

#[tokio::test]
async fn cut_after_is_executed_when_the_client_notices() {
    let (server, proxy) = lab();
    for round in 1..=20 {
        let mut wire = Wire::to(&proxy).await;
        let _cut = proxy.on(Matcher::command("INCR"), Action::CutAfter);
        wire.send(&["PING", "INCR a", "INCR b"]).await;
        assert_eq!(wire.until_end().await, "+PONG\r\n");
        assert_eq!(server.ask::<u64>(&["GET", "a"]).await, round);
        assert_eq!(server.keys().await, ["a"]);
        proxy.clear_triggers();
    }
}

#[tokio::test]
async fn cut_reply_at_every_byte() {
    let (server, proxy) = lab();
    server.cmd(&["RPUSH", "list", "one", "$2\r\n"]).await;
    let reply = "*2\r\n$3\r\none\r\n$4\r\n$2\r\n\r\n";
    for n in 0..=reply.len() {
        let mut wire = Wire::to(&proxy).await;
        let _cut = proxy.on(Matcher::command("LRANGE"), Action::CutReply(n));
        wire.send(&["PING", "LRANGE list 0 -1", "PING"]).await;
        let expected = format!("+PONG\r\n{}", &reply[..n]);
        assert_eq!(wire.until_end().await, expected, "{n}");
        proxy.clear_triggers();
    }
}

#[tokio::test]
async fn messages_are_no_replies() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    assert!(wire.ask("HELLO 3").await.starts_with('%'));
    assert!(wire.ask("SUBSCRIBE c").await.starts_with('>'));
    // A message comes before each reply; the second reply is the one that is cut.
    let _cut = proxy.on(Matcher::command("ECHO").nth(2), Action::CutReply(3));
    for word in ["first", "second"] {
        server.cmd(&["PUBLISH", "c", word]).await;
        assert!(wire.reply().await.starts_with('>'));
        wire.send(&[&format!("ECHO {word}")]).await;
        if word == "first" {
            assert_eq!(wire.reply().await, "$5\r\nfirst\r\n");
        }
    }
    assert_eq!(wire.until_end().await, "$6\r");
}

#[tokio::test]
async fn a_confirmation_can_be_cut() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let _cut = proxy.on(Matcher::command("SUBSCRIBE"), Action::CutAfter);
    wire.send(&["PING", "SUBSCRIBE c"]).await;
    assert_eq!(wire.until_end().await, "+PONG\r\n");
    until("it ends", CAP, async || clients(&server).await == 1).await;
}

#[tokio::test]
async fn a_refused_subscription_is_no_reply_to_another_request() {
    let (server, proxy) = lab();
    server
        .cmd(&["ACL", "SETUSER", "default", "resetchannels"])
        .await;
    let mut wire = Wire::to(&proxy).await;
    let _cut = proxy.on(Matcher::command("ECHO"), Action::CutReply(4));
    assert!(wire.ask("SUBSCRIBE c").await.starts_with("-NOPERM"));
    wire.send(&["PING", "ECHO hello"]).await;
    assert_eq!(wire.until_end().await, "+PONG\r\n$5\r\n");
}

/// Connections at the server, including the one that asks.
async fn clients(server: &crate::RedisServer) -> usize {
    let list: String = server.ask(&["CLIENT", "LIST"]).await;
    list.lines().count()
}
