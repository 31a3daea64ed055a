//! Actions that hold requests or replies back, and how triggers count.

use super::wire::{CAP, Wire, lab};
use crate::proxy::{Action, Matcher};
use crate::resp::words;
use crate::wait::until;

#[tokio::test]
async fn what_is_held_comes_late_although_the_client_has_gone() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let held = proxy.on(Matcher::command("SET"), Action::Hold);
    wire.send(&["INCR before", "SET late 1", "INCR behind"])
        .await;
    held.seen().await;
    assert_eq!(wire.reply().await, ":1\r\n");
    wire.send(&["INCR later"]).await;
    drop(wire);
    until("the client has gone", CAP, async || proxy.live() == 0).await;
    assert_eq!(server.keys().await, ["before"]);
    proxy.release_held();
    let all = ["before", "behind", "late", "later"];
    until("it came late", CAP, async || server.keys().await == all).await;
}

#[tokio::test]
async fn what_is_held_survives_a_cut() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let held = proxy.on(Matcher::command("SET"), Action::Hold);
    wire.send(&["SET late 1"]).await;
    held.seen().await;
    proxy.cut_all();
    assert_eq!(wire.until_end().await, "");
    assert!(server.keys().await.is_empty());
    proxy.release_held();
    until("it came late", CAP, async || {
        server.keys().await == ["late"]
    })
    .await;
}

#[tokio::test]
async fn a_client_that_waits_gets_the_replies_of_what_was_held() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let held = proxy.on(Matcher::command("INCR"), Action::Hold);
    wire.send(&["INCR a", "INCR a", "PING"]).await;
    held.seen().await;
    assert!(server.keys().await.is_empty());
    let mut other = Wire::to(&proxy).await;
    assert_eq!(
        other.ask("INCR b").await,
        ":1\r\n",
        "only its own connection"
    );
    proxy.release_held();
    assert_eq!(wire.reply().await, ":1\r\n");
    assert_eq!(wire.reply().await, ":2\r\n");
    assert_eq!(wire.reply().await, "+PONG\r\n");
}

#[tokio::test]
async fn every_request_can_be_held_in_turn() {
    let (_server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let held = proxy.on(Matcher::command("INCR").every(), Action::Hold);
    wire.send(&["INCR a", "INCR a"]).await;
    for round in 1..=2 {
        until("it is held", CAP, async || held.fired() == round).await;
        proxy.release_held();
        assert_eq!(wire.reply().await, format!(":{round}\r\n"));
    }
}

#[tokio::test]
async fn a_held_reply_was_executed() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let held = proxy.on(Matcher::command("INCR"), Action::HoldReply);
    wire.send(&["PING", "INCR a", "INCR a"]).await;
    held.seen().await;
    assert_eq!(wire.reply().await, "+PONG\r\n");
    assert_eq!(server.keys().await, ["a"]);
    proxy.release_held();
    assert_eq!(wire.reply().await, ":1\r\n");
    assert_eq!(wire.reply().await, ":2\r\n");
}

#[tokio::test]
async fn a_held_reply_does_not_outlive_a_cut() {
    let (_server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let held = proxy.on(Matcher::command("INCR"), Action::HoldReply);
    wire.send(&["INCR a"]).await;
    held.seen().await;
    proxy.cut_all();
    proxy.release_held();
    assert_eq!(wire.until_end().await, "");
}

#[tokio::test]
async fn triggers_count_on_all_connections() {
    let (_server, proxy) = lab();
    let third = proxy.on(Matcher::command("PING").nth(3), Action::Signal);
    let from_second = proxy.on(Matcher::command("PING").nth(2).every(), Action::Signal);
    let by_bytes = |request: &[u8]| words(request).len() == 1;
    let short = proxy.on(Matcher::when(by_bytes), Action::Signal);
    for _ in 0..4 {
        assert_eq!(Wire::to(&proxy).await.ask("PING").await, "+PONG\r\n");
    }
    third.seen().await;
    assert_eq!((third.fired(), third.count()), (1, 4));
    assert_eq!((from_second.fired(), from_second.count()), (3, 4));
    assert_eq!((short.fired(), short.count()), (1, 4));
}

#[tokio::test]
async fn of_two_actions_at_one_request_the_first_acts() {
    let (server, proxy) = lab();
    let mut wire = Wire::to(&proxy).await;
    let cut = proxy.on(Matcher::any(), Action::CutBefore);
    let hold = proxy.on(Matcher::any(), Action::Hold);
    let signal = proxy.on(Matcher::any(), Action::Signal);
    wire.send(&["SET a 1"]).await;
    assert_eq!(wire.until_end().await, "");
    assert_eq!((cut.fired(), hold.fired(), signal.fired()), (1, 0, 1));
    assert!(server.keys().await.is_empty());
}
