//! What is told about the nodes: by the pool's status, by a check, and in the log.

use std::time::Duration;

use dlock_harness::{RedisServer, until};
use dlock_runtime::{
    Concern, Eviction, LockError, LockPool, NodeStanding, NodeStatus, Notice, UnavailableCause,
};
use dlock_tests::recorded;

use crate::nodes::Nodes;
use crate::{CAP, MAX_TTL};

fn standings(pool: &LockPool) -> Vec<NodeStanding> {
    let nodes = pool.status().unwrap().nodes;
    nodes.into_iter().map(|it| it.standing).collect()
}

async fn about_nodes(pool: &LockPool) -> Vec<(bool, String)> {
    let found = pool.check().await.unwrap();
    let found = found.iter().filter(|it| it.concern() == Concern::Quorum);
    found.map(|it| (it.is_harmful(), it.to_string())).collect()
}

fn logged(node: &RedisServer, words: [&str; 2]) -> usize {
    recorded::lines(&[words[0], words[1], &format!(":{}", node.port())]).len()
}

#[tokio::test]
async fn nodes_that_go_and_come_are_told_once_each() {
    recorded::record();
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    until("all vote", CAP, async || {
        standings(&pool) == [const { NodeStanding::Votes }; 3]
    })
    .await;
    assert_eq!(about_nodes(&pool).await, []);
    let first: &NodeStatus = &pool.status().unwrap().nodes[0];
    assert!(
        first.node.ends_with(&format!(":{}/0", nodes.0[0].port())),
        "{}",
        first.node
    );

    let gone = &nodes.0[0];
    gone.kill9();
    let is_away = |it: &NodeStanding| matches!(it, NodeStanding::Away { .. });
    until("the first is away", CAP, async || {
        is_away(&standings(&pool)[0])
    })
    .await;
    let found = about_nodes(&pool).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        !found[0].0 && found[0].1.contains("survives no further failure"),
        "{found:?}"
    );
    until("the log says so", CAP, async || {
        logged(gone, ["WARN", "it is away"]) == 1
    })
    .await;

    gone.restart_empty();
    let waits = |it: &NodeStanding| matches!(it, NodeStanding::Quarantined { .. });
    until("it is back, and waits", CAP, async || {
        waits(&standings(&pool)[0])
    })
    .await;
    until("it votes", CAP, async || {
        standings(&pool)[0] == NodeStanding::Votes
    })
    .await;
    until("the log says so", CAP, async || {
        logged(gone, ["INFO", "a node votes again"]) == 1
    })
    .await;
    assert_eq!(logged(gone, ["WARN", "does not vote yet"]), 1);
    assert_eq!(logged(gone, ["WARN", "it is away"]), 1);
}

/// What somebody reads who starts three new servers and a program: when `init` returns, the log has
/// named those that it reached, and the seconds; the first lock fails by its time, with all of them
/// in the error.
#[tokio::test]
async fn new_nodes_are_told_at_the_start() {
    recorded::record();
    let nodes = Nodes::start(3);
    let pool = nodes.pool().await;
    let named = |node: &RedisServer| logged(node, ["WARN", "does not vote yet"]);
    let at_once = nodes.0.iter().filter(|node| named(node) == 1).count();
    assert!(at_once >= 2, "only {at_once} are named at the start");
    let said = (1..=MAX_TTL.as_secs() + 2).map(|it| it.to_string());
    let said: Vec<_> = said.collect();
    for node in &nodes.0 {
        until("the log names the node", CAP, async || named(node) == 1).await;
        let line = recorded::lines(&["does not vote yet", &format!(":{}", node.port())]).remove(0);
        let seconds = |it: &String| line.contains(&format!("seconds={it}"));
        assert!(said.iter().any(seconds), "{line}");
        assert!(line.contains("new servers wait, too"), "{line}");
    }
    let found = about_nodes(&pool).await;
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(
        found.iter().all(|it| it.0 && it.1.contains("too few vote")),
        "{found:?}"
    );

    let error = pool
        .lock("item")
        .wait(Duration::ZERO)
        .acquire()
        .await
        .unwrap_err();
    assert!(
        matches!(
            error,
            LockError::Unavailable {
                cause: UnavailableCause::TooFewNodes,
                ..
            }
        ),
        "{error:?}"
    );
    let (headline, text) = (error.to_string(), format!("{error:?}"));
    assert!(
        headline.starts_with("too few nodes vote (item): wait for those"),
        "{headline}"
    );
    assert!(!text.contains("can't be reached"), "{text}");
    assert!(
        text.contains("a lock needs the votes of 2 of 3 nodes: "),
        "{text}"
    );
    for node in &nodes.0 {
        let when = |it: &String| {
            format!(
                ":{}/0 does not vote for another {it} s, because it was started a short time ago",
                node.port()
            )
        };
        assert!(said.iter().any(|it| text.contains(&when(it))), "{text}");
    }
    let _first = pool.lock("item").wait(CAP).acquire().await.unwrap();
    assert!(nodes.0.iter().all(|node| named(node) == 1));
}

/// A quorum that is gone is not "redis": the error says which nodes, and why.
#[tokio::test]
async fn a_quorum_that_is_away_is_named() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    nodes.0[0].kill9();
    nodes.0[1].kill9();
    until("the error names both", CAP, async || {
        let error = pool
            .lock("item")
            .wait(Duration::ZERO)
            .acquire()
            .await
            .unwrap_err();
        let text = format!("{error:?}");
        assert!(
            error.to_string().starts_with("too few nodes vote (item): "),
            "{text}"
        );
        [0, 1]
            .iter()
            .all(|node: &usize| text.contains(&format!(":{}/0 is away (", nodes.0[*node].port())))
            && text.contains(&format!(":{}/0 votes", nodes.0[2].port()))
    })
    .await;
    let error = LockPool::connect(nodes.config()).await.unwrap_err();
    let text = format!("{error:?}");
    assert!(
        error.to_string().starts_with("too few nodes vote: "),
        "{text}"
    );
    assert!(text.contains("no connection to 2 of 3 nodes: "), "{text}");
}

#[tokio::test]
async fn a_lock_is_shown_and_its_holder_evicted() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let held = pool
        .lock("item:7")
        .function("seen")
        .acquire()
        .await
        .unwrap();

    nodes.0[2].kill9();
    let admin = pool.admin();
    let mut list = admin.list("item:*");
    let mut keys = Vec::new();
    while let Some(page) = list.next_page().await.unwrap() {
        keys.extend(page.iter().map(|lock| lock.key().to_owned()));
    }
    keys.dedup();
    assert_eq!(keys, ["item:7"]);
    let shown = admin.show("item:7").await.unwrap().unwrap();
    let fingerprint = shown.holders()[0].fingerprint();
    let _ = admin.evict("item:7", fingerprint).await.unwrap();
    assert!(admin.show("item:7").await.unwrap().is_none());
    assert!(held.verify().await.is_err());
    let _next = pool.lock("item:7").acquire().await.unwrap();
}

/// The list would miss a lock that only they have.
#[tokio::test]
async fn a_list_needs_a_quorum_of_nodes() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let _held = pool.lock("item:7").ttl(MAX_TTL).acquire().await.unwrap();
    let deny = ["ACL", "SETUSER", "default", "-scan"];
    let list = async || {
        let admin = pool.admin();
        let mut list = admin.list("item:*");
        let mut pages = 0;
        loop {
            match list.next_page().await {
                Ok(Some(_)) => pages += 1,
                Ok(None) => return Ok(pages),
                Err(error) => return Err(error),
            }
        }
    };
    nodes.0[1].cmd(&deny).await;
    list().await.unwrap();
    nodes.0[2].cmd(&deny).await;
    let error = list().await.unwrap_err();
    assert!(matches!(error, LockError::Refused { .. }), "{error:?}");
}

/// A node that has missed something of it does not hide it, nor a reader that only one node has.
#[tokio::test]
async fn readers_are_shown_and_one_of_them_is_evicted() {
    let nodes = Nodes::voting(3).await;
    let pool = nodes.pool().await;
    let reader = || pool.lock("page").read().renew();
    let one = reader().acquire().await.unwrap();
    nodes.0[2].cmd(&["DEL", "lock:page"]).await;
    let two = reader().acquire().await.unwrap();
    nodes.0[0]
        .cmd(&["ZADD", "lock:page", "9e15", &fake_reader()])
        .await;

    let shown = pool.admin().show("page").await.unwrap().unwrap();
    assert_eq!(shown.holders().len(), 2);
    let longest = shown.holders()[0].fingerprint();
    assert_eq!(
        pool.admin().evict("page", longest).await.unwrap(),
        Eviction::Done(Notice::Sent)
    );
    let left = pool.admin().show("page").await.unwrap().unwrap();
    assert_eq!(left.holders().len(), 1);
    let verified = [one.verify().await.is_ok(), two.verify().await.is_ok()];
    assert_eq!(verified.iter().filter(|it| **it).count(), 1);
    nodes.0[2].kill9();
    let left = pool.admin().show("page").await.unwrap().unwrap();
    assert_eq!(left.holders().len(), 1);
}

fn fake_reader() -> String {
    "1|r|somebody||1000|0|0||host|1|f|0".to_owned()
}
