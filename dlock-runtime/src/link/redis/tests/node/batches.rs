//! Tests of a node's commands in batches: their order, and callers that go.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use dlock_harness::until;

use super::{CAP, ballot, claim, link, listening, of_one_counter, server, take_back, vote};
use crate::link::Link;
use crate::link::redis::link::RedisLink;
use crate::link::redis::link::batcher::OwnedCommand;
use crate::link::redis::reply::{ItemReply, OfNode};
use crate::link::redis::tests::lab::Heard;
use crate::rules::ballots::{Ballot, Vote};
use crate::rules::commands::{Claim, Keep};

/// Polls it once: from then on it is sent, sooner or later.
fn begin(answer: &mut Pin<Box<impl Future>>) {
    let mut context = Context::from_waker(Waker::noop());
    assert!(answer.as_mut().poll(&mut context).is_pending());
}

fn ballots(link: &RedisLink, number: usize) -> Vec<Ballot> {
    let claims = (0..number).map(|it| claim(&format!("lock:{it}"), "a"));
    claims.map(|it| ballot(&it, 5, link)).collect()
}

#[tokio::test]
async fn a_command_is_sent_even_if_its_caller_has_gone() {
    for in_flight in [0, 2] {
        sent_without_callers(in_flight).await;
    }
}

/// With two commands in flight, a flusher sends the others; with none, their callers do.
async fn sent_without_callers(in_flight: usize) {
    let server = server();
    let link = link(&server.url()).await;
    let others: Vec<_> = (0..in_flight)
        .map(|it| ballot(&claim(&format!("lock:other{it}"), "a"), 5, &link))
        .collect();
    let mut others: Vec<_> = others
        .iter()
        .map(|it| Box::pin(link.vote(it, CAP)))
        .collect();
    others.iter_mut().for_each(begin);
    let ballots = ballots(&link, 6);
    for ballot in &ballots {
        begin(&mut Box::pin(link.vote(ballot, CAP)));
    }
    // What takes the last one back is behind it.
    assert!(take_back(&link, &ballots[5].claim).await.found);
    let keys = server.keys().await;
    for ballot in &ballots[..5] {
        assert!(keys.contains(&ballot.claim.key.to_string()), "{keys:?}");
    }
    let mut answers: Vec<_> = ballots
        .iter()
        .map(|it| Box::pin(link.take_back(&it.claim, Keep::NOT, 0, CAP)))
        .collect();
    answers.iter_mut().for_each(begin);
    drop(answers);
    for other in others {
        other.await.unwrap();
    }
    let is_left = |it: &String| !it.contains('@') && !it.contains("other");
    until("all are taken back", CAP, async || {
        !server.keys().await.iter().any(is_left)
    })
    .await;
    assert!(link.node_batcher().is_idle(), "no slot is left over");
}

#[tokio::test]
async fn commands_for_a_lock_are_executed_in_the_order_in_which_they_began() {
    let server = server();
    let link = link(&server.url()).await;
    let busy = ballots(&link, 2);
    let [a, b] = ["a", "b"].map(|token| ballot(&claim("lock:k", token), 5, &link));
    let mut first: Vec<_> = busy.iter().map(|it| Box::pin(link.vote(it, CAP))).collect();
    first.iter_mut().for_each(begin);
    let mut one = Box::pin(link.vote(&a, CAP));
    let mut two = Box::pin(link.vote(&b, CAP));
    let mut three = Box::pin(link.take_back(&a.claim, Keep::NOT, 0, CAP));
    let mut four = Box::pin(link.vote(&b, CAP));
    let mut five = Box::pin(link.take_back(&b.claim, Keep::NOT, 0, CAP));
    begin(&mut one);
    begin(&mut two);
    begin(&mut three);
    begin(&mut four);
    begin(&mut five);
    assert!(matches!(one.await.unwrap(), Vote::Granted { .. }));
    assert!(matches!(two.await.unwrap(), Vote::Busy(_)));
    assert!(three.await.unwrap().found);
    assert!(matches!(four.await.unwrap(), Vote::Granted { .. }));
    assert!(five.await.unwrap().found);
}

#[tokio::test]
async fn a_dead_address_is_passed_over_and_forged_messages_do_no_harm() {
    let server = server();
    let heard = Arc::<Heard>::default();
    let [one, two] = [
        link(&server.url()).await,
        listening(&server.url(), &heard).await,
    ];
    let [a, b, c] = ["a", "b", "c"].map(|token| claim("lock:k", token));
    vote(&one, &a, 1).await;
    let mut dead = ballot(&b, 1, &one);
    dead.hint_to = "0123;lock:@grant:dead".into();
    assert!(matches!(one.vote(&dead, CAP).await.unwrap(), Vote::Busy(it) if it.rank == 0));
    for _ in 0..2 {
        let Vote::Busy(outvoted) = vote(&two, &c, 1).await else {
            panic!("a holds it")
        };
        assert_eq!(outvoted.rank, 1, "its place is kept");
    }
    assert!(take_back(&one, &a).await.found);
    until("told", CAP, async || heard.take_freed() == ["lock:k"]).await;
    assert_eq!(server.ask::<u32>(&["EXISTS", "lock:@h:{lock:k}"]).await, 0);

    let (_, channel) = two.address().unwrap().split_once(';').unwrap();
    let long = format!("1|freed\n{}", "k".repeat(513));
    // As plausible as can be: a node grants nothing by a message.
    let (seconds, micros): (u64, u64) = server.ask(&["TIME"]).await;
    let time = seconds * 1_000_000 + micros;
    let granted = format!("1|granted\nlock:k\n{}\n{time}\n{time}\n3000\n", c.value);
    for message in [
        &*granted,
        "",
        "1|freed",
        "1|freed\n",
        "1|freed\na\nb",
        "2|freed\nk",
        &long,
    ] {
        server.cmd(&["PUBLISH", channel, message]).await;
    }
    server
        .cmd(&["PUBLISH", channel, "1|freed\nlock:forged"])
        .await;
    let mut freed = Vec::new();
    until("the last one is heard", CAP, async || {
        freed.extend(heard.take_freed());
        freed.last().is_some_and(|it| it == "lock:forged")
    })
    .await;
    assert_eq!(freed, ["lock:forged"]);
    assert!(heard.take().is_empty() && heard.take_hints().is_empty());
    assert!(matches!(vote(&one, &b, 9).await, Vote::Granted { .. }));
}

/// The answers to commands that are sent in one batch.
async fn ask_together<const N: usize>(
    link: &RedisLink,
    commands: [OwnedCommand; N],
) -> Vec<OfNode> {
    let answers = link.node_batcher().ask_together(commands.into(), CAP).await;
    let read = |it: Option<Result<ItemReply, _>>| it.unwrap().and_then(ItemReply::of_node).unwrap();
    answers.into_iter().map(read).collect()
}

#[tokio::test]
async fn a_lock_that_is_taken_back_twice_in_a_batch_was_held_once() {
    let server = server();
    let link = link(&server.url()).await;
    let [a, b] = ["lock:a", "lock:b"].map(|key| claim(key, "1"));
    vote(&link, &a, 1).await;
    vote(&link, &b, 1).await;
    let take_back = |claim: &Claim| OwnedCommand::TakeBack {
        claim: claim.clone(),
        keep: Keep::NOT,
    };
    let batch = [&a, &a, &b].map(take_back);
    let answers = ask_together(&link, batch).await;
    let found: Vec<_> = answers
        .iter()
        .map(|it| it.taken_back(0).unwrap().found)
        .collect();
    assert_eq!(found, [true, false, true]);
    for claim in [&a, &b] {
        assert_eq!(server.ask::<u32>(&["EXISTS", &claim.key]).await, 0);
    }
}

#[tokio::test]
async fn locks_with_one_counter_draw_apart_in_a_batch() {
    let server = server();
    let link = link(&server.url()).await;
    let [a, b] = of_one_counter().map(|key| claim(&key, "1"));
    vote(&link, &a, 10).await;
    take_back(&link, &a).await;
    for (proposal, drawn) in [(5, [11, 12]), (50, [50, 51])] {
        let batch = [&a, &b].map(|it| OwnedCommand::Vote(ballot(it, proposal, &link)));
        let answers = ask_together(&link, batch).await;
        let epochs = answers.iter().map(|it| match it.vote(proposal).unwrap() {
            Vote::Granted { epoch, .. } => epoch,
            other => panic!("not granted: {other:?}"),
        });
        assert_eq!(epochs.collect::<Vec<_>>(), drawn);
        take_back(&link, &a).await;
        take_back(&link, &b).await;
    }
}
