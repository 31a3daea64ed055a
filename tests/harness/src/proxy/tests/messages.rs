//! Actions on pushed messages.

use super::wire::{Wire, lab};
use crate::proxy::{Action, Matcher, Proxy};
use crate::server::RedisServer;

/// A RESP3 client that subscribes to `c`.
async fn subscribed(proxy: &Proxy) -> Wire {
    let mut wire = Wire::to(proxy).await;
    assert!(wire.ask("HELLO 3").await.starts_with('%'));
    assert!(wire.ask("SUBSCRIBE c").await.contains("subscribe"));
    wire
}

async fn publish(server: &RedisServer, text: &str) {
    let heard: u64 = server.ask(&["PUBLISH", "c", text]).await;
    assert_eq!(heard, 1);
}

#[tokio::test]
async fn a_message_is_lost_and_the_connection_goes_on() {
    let (server, proxy) = lab();
    let mut wire = subscribed(&proxy).await;
    let lost = proxy.on(Matcher::any().containing("two"), Action::LoseMessage);
    for text in ["one", "two", "three"] {
        publish(&server, text).await;
    }
    assert!(wire.reply().await.contains("one"));
    assert!(wire.reply().await.contains("three"));
    assert_eq!(wire.ask("ECHO two").await, "$3\r\ntwo\r\n", "no message");
    assert_eq!(lost.fired(), 1);
}

#[tokio::test]
async fn a_message_comes_twice() {
    let (server, proxy) = lab();
    let mut wire = subscribed(&proxy).await;
    let twice = proxy.on(Matcher::any(), Action::RepeatMessage);
    publish(&server, "one").await;
    publish(&server, "two").await;
    assert!(wire.reply().await.contains("one"));
    assert_eq!(twice.fired(), 1, "told before it comes");
    assert!(wire.reply().await.contains("one"));
    assert!(wire.reply().await.contains("two"));
}

#[tokio::test]
async fn a_message_comes_behind_later_replies() {
    let (server, proxy) = lab();
    let mut wire = subscribed(&proxy).await;
    let held = proxy.on(Matcher::any(), Action::HoldMessage);
    publish(&server, "late").await;
    held.seen().await;
    assert_eq!(wire.ask("PING").await, "+PONG\r\n");
    proxy.release_held();
    assert!(wire.reply().await.contains("late"));
    assert_eq!(wire.ask("PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn a_message_overtakes_a_reply_and_those_behind_it() {
    let (server, proxy) = lab();
    let mut wire = subscribed(&proxy).await;
    let held = proxy.on(Matcher::command("INCR"), Action::HoldReplyAlone);
    wire.send(&["INCR a", "INCR a"]).await;
    held.seen().await;
    publish(&server, "first").await;
    assert!(wire.reply().await.contains("first"));
    proxy.release_held();
    assert_eq!(wire.reply().await, ":1\r\n");
    assert_eq!(wire.reply().await, ":2\r\n");
    assert_eq!(wire.ask("PING").await, "+PONG\r\n");
}

#[tokio::test]
async fn what_is_kept_back_is_lost_with_its_connection() {
    let (server, proxy) = lab();
    let wire = subscribed(&proxy).await;
    let held = proxy.on(Matcher::any(), Action::HoldMessage);
    publish(&server, "late").await;
    held.seen().await;
    proxy.cut_all();
    proxy.release_held();
    assert_eq!(wire.until_end().await, "");
}
