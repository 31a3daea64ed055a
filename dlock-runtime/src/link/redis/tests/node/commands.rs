//! Tests of what a node answers to single commands.

use std::sync::Arc;

use dlock_harness::until;

use super::{
    CAP, HOUR, OF_THREE, ballot, claim, link, listening, listening_as, of_kind, server, take_back,
    vote,
};
use crate::link::Link;
use crate::link::redis::membership::NodePlan;
use crate::link::redis::tests::lab::{Heard, for_an_hour};
use crate::rules::ballots::{Adopted, Vote};
use crate::rules::commands::Keep;
use crate::values::entry::LEFT_TO_A_WRITER;
use crate::values::kind::Kind;
use crate::values::report::Notice;
use crate::values::token;

fn epoch(vote: &Vote) -> u64 {
    match vote {
        Vote::Granted { epoch, .. } => *epoch,
        other => panic!("not granted: {other:?}"),
    }
}

#[tokio::test]
async fn a_node_votes_for_one_and_draws_what_is_proposed_or_above_its_last() {
    let server = server();
    let link = link(&server.url()).await;
    let [a, b] = ["a", "b"].map(|token| claim("lock:k", token));
    assert_eq!(epoch(&vote(&link, &a, 100).await), 100);
    assert_eq!(epoch(&vote(&link, &a, 900).await), 100, "a duplicate");
    let Vote::Busy(outvoted) = vote(&link, &b, 50).await else {
        panic!("a holds it");
    };
    assert_eq!((outvoted.last_epoch, outvoted.rank), (100, 0));
    assert_eq!(outvoted.busy.value, *a.value);

    assert!(take_back(&link, &a).await.found);
    assert_eq!(epoch(&vote(&link, &b, 50).await), 101);
    assert_eq!(link.adopt(&b, 100, CAP).await.unwrap(), Adopted::Yes);
    assert_eq!(link.adopt(&a, 300, CAP).await.unwrap(), Adopted::Gone);
    assert_eq!(link.adopt(&b, 300, CAP).await.unwrap(), Adopted::Yes);
    assert!(take_back(&link, &b).await.conclusive);
    assert_eq!(epoch(&vote(&link, &a, 7).await), 301);
    assert_eq!(
        link.adopt(&a, (1 << 53) - 3, CAP).await.unwrap(),
        Adopted::Yes
    );
    take_back(&link, &a).await;
    assert_eq!(epoch(&vote(&link, &a, 7).await), (1 << 53) - 2, "exact");
}

/// A holder's entry names no connection there, because it is the same at all nodes.
#[tokio::test]
async fn a_node_tells_the_holders_pool_that_it_was_evicted() {
    let server = server();
    let token = "0123-45-6";
    let (ours, others) = (Arc::<Heard>::default(), Arc::<Heard>::default());
    let pool = token::number_of_pool(token).expect("it is a token");
    let of = |pool| NodePlan { pool, ..OF_THREE };
    let ours_link = listening_as(&server.url(), of(pool), &ours).await;
    let _other_link = listening_as(&server.url(), of(pool + 1), &others).await;
    let admin = link(&server.url()).await;
    let evicted = claim("lock:k", token);
    let told = admin.tell_evicted(&evicted, CAP).await.unwrap();
    assert_eq!(told, Notice::Sent);
    let said = [("lock:k".to_owned(), evicted.value.to_string(), true)];
    until("it is told", CAP, async || ours.take_evicted() == said).await;
    assert_eq!(others.take_evicted(), []);
    drop(ours_link);
}

#[tokio::test]
async fn a_late_vote_creates_nothing_and_a_later_take_back_is_conclusive() {
    let server = server();
    let link = link(&server.url()).await;
    let a = claim("lock:k", "a");
    let mut late = ballot(&a, 7, &link);
    late.not_after = link.server_time() - HOUR;
    let keys = server.keys().await;
    let Vote::Late { time } = link.vote(&late, CAP).await.unwrap() else {
        panic!("it is late");
    };
    assert!(time > late.not_after);
    assert_eq!(server.keys().await, keys);
    let open = link
        .take_back(&a, Keep::NOT, time + HOUR, CAP)
        .await
        .unwrap();
    assert!(!open.found && !open.conclusive);
    let over = link
        .take_back(&a, Keep::NOT, late.not_after, CAP)
        .await
        .unwrap();
    assert!(!over.found && over.conclusive);
}

/// Nobody wants a hint at this node.
#[tokio::test]
async fn a_vote_that_is_taken_back_stays_as_nobodys_until_it_may_go() {
    let server = server();
    let link = link(&server.url()).await;
    let [a, b] = ["a", "b"].map(|token| claim("lock:k", token));
    vote(&link, &a, 1).await;
    let kept = link
        .take_back(&a, for_an_hour(&link), 0, CAP)
        .await
        .unwrap();
    assert!(kept.found && kept.conclusive);
    let Vote::Busy(outvoted) = vote(&link, &b, 1).await else {
        panic!("it is kept");
    };
    assert_ne!(outvoted.busy.value, *a.value, "and nobody's");
    assert!(!take_back(&link, &a).await.found);
}

#[tokio::test]
async fn who_was_outvoted_is_told_when_the_lock_is_free() {
    let server = server();
    let heard = Arc::<Heard>::default();
    let [one, two] = [
        link(&server.url()).await,
        listening(&server.url(), &heard).await,
    ];
    let [a, b] = ["a", "b"].map(|token| claim("lock:k", token));
    vote(&one, &a, 1).await;
    assert!(matches!(vote(&two, &b, 1).await, Vote::Busy(_)));
    assert!(take_back(&one, &a).await.found);
    until("told", CAP, async || heard.take_freed() == ["lock:k"]).await;
    assert!(two.address().is_some());
}

#[tokio::test]
async fn a_writer_who_waits_keeps_new_readers_out_and_nobody_else() {
    let server = server();
    let heard = Arc::<Heard>::default();
    let link = listening(&server.url(), &heard).await;
    let is_granted = async |kind: &Kind, key: &str, token: &str| {
        let claim = of_kind(kind, key, token);
        matches!(vote(&link, &claim, 1).await, Vote::Granted { .. })
    };
    let ann = Kind::Owned("ann".into());
    for (held, kind, is_let_in) in [("lock:r", &Kind::Read, false), ("lock:o", &ann, true)] {
        assert!(is_granted(kind, held, "1").await);
        assert!(is_granted(kind, held, "2").await);
        assert!(!is_granted(&Kind::Write, held, "w").await);
        assert_eq!(is_granted(kind, held, "3").await, is_let_in, "{held}");
    }
    for token in ["1", "2"] {
        take_back(&link, &of_kind(&Kind::Read, "lock:r", token)).await;
    }
    until("told", CAP, async || {
        heard.take_freed().iter().any(|it| it == "lock:r")
    })
    .await;
    let Vote::Busy(free) = vote(&link, &of_kind(&Kind::Read, "lock:r", "3"), 1).await else {
        panic!("a reader before the writer");
    };
    assert_eq!(free.busy.value, LEFT_TO_A_WRITER);
    assert!(is_granted(&Kind::Write, "lock:r", "w").await);
    // While a writer holds it, nobody comes before the others.
    assert!(!is_granted(&Kind::Write, "lock:r", "w2").await);
    take_back(&link, &of_kind(&Kind::Write, "lock:r", "w")).await;
    assert!(is_granted(&Kind::Read, "lock:r", "3").await);
}

const HINTS: &str = "lock:@h:{lock:k}";
/// `BEHIND_ALL` in `node.lua`.
const BEHIND_ALL: u64 = 1 << 52;

#[tokio::test]
async fn a_free_lock_is_left_to_one_writer_that_listens_and_for_half_a_second() {
    let server = server();
    let heard = [Arc::<Heard>::default(), Arc::default()];
    let links = [
        listening(&server.url(), &heard[0]).await,
        listening(&server.url(), &heard[1]).await,
    ];
    let read = of_kind(&Kind::Read, "lock:k", "r");
    let claims = ["0", "1"].map(|token| of_kind(&Kind::Write, "lock:k", token));
    vote(&links[0], &read, 1).await;
    for (link, claim) in links.iter().zip(&claims) {
        assert!(matches!(vote(link, claim, 1).await, Vote::Busy(_)));
    }
    let time = async || {
        let [seconds, micros]: [u64; 2] = server.ask(&["TIME"]).await;
        seconds * 1_000_000 + micros
    };
    let before = time().await;
    let [first, second] = [&links[0], &links[1]].map(|link| {
        let address = link.address().unwrap().to_string();
        address.trim_start_matches(';').to_owned() // its channel
    });
    let in_a_second = before + 1_000_000;
    for (channel, ends) in [
        (&*second, before - 1), // has lapsed
        ("nobody's", in_a_second),
        ("another", in_a_second + 9_000_000),
    ] {
        let (score, writer) = ((BEHIND_ALL + ends).to_string(), format!("w{channel}"));
        server.cmd(&["ZADD", HINTS, &score, &writer]).await;
    }
    take_back(&links[0], &read).await;
    let after = time().await;
    until("told", CAP, async || heard[0].take_freed() == ["lock:k"]).await;
    let last = ["ZRANGE", HINTS, "-3", "-1", "WITHSCORES"];
    let left: Vec<(String, u64)> = server.ask(&last).await;
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(left[0].0, second, "it waits, and is told later");
    assert_eq!(left[1].0, format!("w{first}"));
    let counts_until = left[1].1 - BEHIND_ALL;
    assert!((before + 500_000..=after + 500_000).contains(&counts_until));
}

#[tokio::test]
async fn readers_draw_above_what_was_drawn() {
    let server = server();
    let link = link(&server.url()).await;
    let read = |token| of_kind(&Kind::Read, "lock:k", token);
    assert_eq!(epoch(&vote(&link, &read("a"), 100).await), 100);
    assert_eq!(epoch(&vote(&link, &read("b"), 100).await), 101);
    assert_eq!(epoch(&vote(&link, &read("c"), 50).await), 102);
    assert_eq!(epoch(&vote(&link, &read("d"), 104).await), 104);
}
