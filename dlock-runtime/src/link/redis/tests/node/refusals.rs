//! Tests of a node that refuses commands: out of memory, without rights, with a value of another
//! type. A refused command leaves nothing, and the others of its batch are executed.

use dlock_harness::RedisServer;

use super::{CAP, ballot, claim, link, plan, server, take_back, vote};
use crate::link::redis::link::batcher::OwnedCommand;
use crate::link::redis::tests::lab::assert_refused;
use crate::link::redis::tests::node::OF_THREE;
use crate::rules::ballots::Vote;
use crate::rules::commands::Keep;
use crate::topology::server::connect::connect;
use crate::values::error::Refusal;

#[tokio::test]
async fn out_of_memory_a_node_votes_no_more_but_takes_back() {
    let server = server();
    let link = link(&server.url()).await;
    let [a, b] = ["a", "b"].map(|token| claim("lock:k", token));
    vote(&link, &a, 5).await;
    let before = server.keys().await;
    server.cmd(&["CONFIG", "SET", "maxmemory", "1"]).await;
    let free = ballot(&claim("lock:free", "a"), 5, &link);
    assert_refused(link.vote(&free, CAP).await, Refusal::OutOfMemory);
    assert_refused(link.adopt(&a, 9, CAP).await, Refusal::OutOfMemory);
    let wanting = ballot(&b, 5, &link);
    assert_refused(link.vote(&wanting, CAP).await, Refusal::OutOfMemory);
    let mut without_hint = wanting;
    without_hint.hint_to = "".into();
    let busy = link.vote(&without_hint, CAP).await;
    assert!(matches!(busy, Ok(Vote::Busy(_))), "{busy:?}");
    assert_eq!(server.keys().await, before);
    // In a batch of votes alone, as well.
    let votes = ["lock:x", "lock:y", "lock:z"].map(|it| ballot(&claim(it, "a"), 5, &link));
    let votes = votes.map(OwnedCommand::Vote).into();
    for answer in link.node_batcher().ask_together(votes, CAP).await {
        assert_refused(answer.unwrap(), Refusal::OutOfMemory);
    }
    assert_eq!(server.keys().await, before);
    assert!(take_back(&link, &a).await.found);
}

/// What a node needs; the rights to MSET and SCRIPT LOAD only save time.
const RIGHTS: [&str; 22] = [
    "+hello",
    "+ping",
    "+eval",
    "+evalsha",
    "+time",
    "+info",
    "+role",
    "+get",
    "+mget",
    "+exists",
    "+set",
    "+del",
    "+pttl",
    "+pexpire",
    "+zadd",
    "+zrank",
    "+zpopmin",
    "+zrange",
    "+publish",
    "+subscribe",
    "&lock:@grant:*",
    "~lock:*",
];

#[tokio::test]
async fn with_the_rights_of_a_node_and_no_others_all_items_are_executed() {
    let server = server();
    let mut user = vec!["ACL", "SETUSER", "u", "reset", "on", ">p"];
    user.extend(RIGHTS);
    server.cmd(&user).await;
    let url = server.url().replace("redis://", "redis://u:p@");
    let link = connect(&plan(&url, OF_THREE)).await.unwrap();
    for _ in 0..2 {
        let claims = ["lock:x", "lock:y", "lock:z"].map(|it| claim(it, "a"));
        let votes = claims
            .each_ref()
            .map(|it| OwnedCommand::Vote(ballot(it, 5, &link)));
        for answer in link.node_batcher().ask_together(votes.into(), CAP).await {
            let vote = answer.unwrap().unwrap().of_node().unwrap().vote(5);
            assert!(matches!(vote, Ok(Vote::Granted { .. })), "{vote:?}");
        }
        let busy = vote(&link, &claim("lock:x", "b"), 5).await;
        assert!(matches!(busy, Vote::Busy(_)), "{busy:?}");
        link.adopt(&claims[0], 1000, CAP).await.unwrap();
        let back = claims.map(|claim| OwnedCommand::TakeBack {
            claim,
            keep: Keep::NOT,
        });
        for answer in link.node_batcher().ask_together(back.into(), CAP).await {
            let answer = answer.unwrap().unwrap().of_node().unwrap();
            assert!(answer.taken_back(0).unwrap().found);
        }
    }
}

/// Each missing right leaves each item undone or done.
#[tokio::test]
async fn a_missing_right_leaves_nothing_half_done() {
    let server = server();
    for missing in [
        "-set", "-del", "-mget", "-mset", "-exists", "-zadd", "-zpopmin", "-publish", "-pexpire",
    ] {
        server.cmd(&["FLUSHALL"]).await;
        server
            .cmd(&[
                "ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all",
            ])
            .await;
        let url = server.url().replace("redis://", "redis://u:p@");
        let link = connect(&plan(&url, OF_THREE)).await.unwrap();
        let claims = ["lock:x", "lock:y"].map(|it| claim(it, "a"));
        for claim in &claims {
            vote(&link, claim, 5).await;
        }
        vote(&link, &claim("lock:y", "b"), 5).await; // wants a hint
        server.cmd(&["ACL", "SETUSER", "u", missing]).await;
        // The hint is refused, or ends.
        let _ = link
            .vote(&ballot(&claim("lock:x", "b"), 5, &link), CAP)
            .await;
        assert_ends(&server, missing).await;
        let fresh = claim("lock:fresh", "a");
        let items = vec![
            OwnedCommand::TakeBack {
                claim: claims[0].clone(),
                keep: Keep::NOT,
            },
            OwnedCommand::Vote(ballot(&fresh, 50, &link)),
            OwnedCommand::TakeBack {
                claim: claims[1].clone(),
                keep: Keep::NOT,
            },
        ];
        let answers = link.node_batcher().ask_together(items, CAP).await;
        let done = answers.into_iter().map(|it| it.unwrap().is_ok());
        let done: Vec<bool> = done.collect();
        let there = server.keys().await;
        let is_there = |key: &str| there.iter().any(|it| it == key);
        let state = [
            !is_there("lock:x"),
            is_there("lock:fresh"),
            !is_there("lock:y"),
        ];
        assert_eq!(done, state, "{missing}");
        let expected = match missing {
            "-set" => [true, false, true],
            "-del" => [false, true, false],
            _ => [true; 3],
        };
        assert_eq!(done, expected, "{missing}");
        assert_ends(&server, missing).await;
    }
}

/// Every key but the counters has a time to live.
async fn assert_ends(server: &RedisServer, missing: &str) {
    for key in server.keys().await {
        let is_counter = key.starts_with("lock:@fence");
        assert!(
            is_counter || server.pttl(&key).await > 0,
            "{missing}: {key}"
        );
    }
}

/// One key that the user may not touch fails only its own item.
#[tokio::test]
async fn a_forbidden_key_fails_its_own_item() {
    let server = server();
    server
        .cmd(&[
            "ACL", "SETUSER", "u", "reset", "on", ">p", "~lock:@*", "~lock:a", "~lock:b", "&*",
            "+@all",
        ])
        .await;
    let url = server.url().replace("redis://", "redis://u:p@");
    let link = connect(&plan(&url, OF_THREE)).await.unwrap();
    let votes = ["lock:a", "lock:no", "lock:b"].map(|it| ballot(&claim(it, "a"), 5, &link));
    let votes = votes.map(OwnedCommand::Vote).into();
    let answers = link.node_batcher().ask_together(votes, CAP).await;
    let done: Vec<_> = answers.into_iter().map(|it| it.unwrap().is_ok()).collect();
    assert_eq!(done, [true, false, true]);
}

#[tokio::test]
async fn a_value_of_another_type_at_the_counter_or_the_hints_fails_the_item() {
    let server = server();
    let link = link(&server.url()).await;
    let [a, b] = ["a", "b"].map(|token| claim("lock:k", token));
    vote(&link, &a, 5).await;
    let keys = server.keys().await;
    let counter = keys.iter().find(|it| it.contains("@fence")).unwrap();
    server.cmd(&["LPUSH", "lock:@h:{lock:k}", "x"]).await;
    assert_refused(
        link.vote(&ballot(&b, 5, &link), CAP).await,
        Refusal::Companion,
    );
    assert!(take_back(&link, &a).await.found);
    server.cmd(&["DEL", counter]).await;
    server.cmd(&["LPUSH", counter, "x"]).await;
    assert_refused(
        link.vote(&ballot(&a, 5, &link), CAP).await,
        Refusal::Companion,
    );
    assert_eq!(server.ask::<u32>(&["EXISTS", "lock:k"]).await, 0);
}
