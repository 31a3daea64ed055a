//! Tests of the handshake with a node: when it may vote, servers that can't be one, and programs
//! that disagree about the quorum.

use std::sync::Arc;
use std::time::Duration;

use dlock_harness::{RedisServer, until};

use super::{CAP, OF_THREE, claim, link, plan, refused, server, vote};
use crate::link::Node;
use crate::link::command_error::CommandError;
use crate::link::redis::membership::NodePlan;
use crate::topology::server::connect::connect;
use crate::values::error::Refusal;

const SECOND: Duration = Duration::from_secs(1);

fn setup_error(error: CommandError) -> String {
    match error {
        CommandError::Setup(why) => why.to_string(),
        other => panic!("another error: {other:?}"),
    }
}

#[tokio::test]
async fn a_server_that_just_started_votes_only_after_the_longest_lease() {
    let of = NodePlan {
        max_ttl: SECOND,
        ..OF_THREE
    };
    let clock = plan("redis://localhost", of).clock;
    let before = clock.now();
    let server = server();
    let fresh = connect(&plan(&server.url(), of)).await.unwrap();
    // Leases of a process before this one may have begun until this one did.
    assert!(fresh.votes_from() >= before.plus(of.max_ttl));
    assert!(fresh.votes_from() <= clock.now().plus(of.max_ttl + SECOND));
    until("its uptime counts", CAP, async || {
        let link = connect(&plan(&server.url(), of)).await.unwrap();
        link.votes_from() <= clock.now()
    })
    .await;
    assert!(clock.now() >= before.plus(of.max_ttl));
    server.kill9();
    server.restart_empty();
    until("it votes again later", CAP, async || {
        let again = connect(&plan(&server.url(), of)).await;
        again.is_ok_and(|it| it.votes_from() > clock.now() && it.run_id() != fresh.run_id())
    })
    .await;
}

#[tokio::test]
async fn a_replica_and_a_master_with_one_are_refused() {
    let [master, replica] = [server(), server()];
    let port = master.port().to_string();
    replica.cmd(&["REPLICAOF", "127.0.0.1", &port]).await;
    master.replicated(1).await;
    let why = setup_error(refused(&plan(&replica.url(), OF_THREE)).await);
    assert!(why.contains("is a replica"), "{why}");
    let why = setup_error(refused(&plan(&master.url(), OF_THREE)).await);
    assert!(why.contains("a master with 1 replica,"), "{why}");
    assert!(master.keys().await.is_empty());
    replica.cmd(&["REPLICAOF", "NO", "ONE"]).await;
    link(&replica.url()).await;
}

#[tokio::test]
async fn programs_that_disagree_about_the_quorum_are_refused() {
    let server = server();
    link(&server.url()).await;
    link(&server.url()).await;
    assert_eq!(
        server.ask::<String>(&["GET", "lock:@quorum"]).await,
        "3;60000"
    );
    let left = server.pttl("lock:@quorum").await;
    assert!((100_000..=120_000).contains(&left), "{left}");
    let [five, longer] = [
        NodePlan {
            nodes: 5,
            ..OF_THREE
        },
        NodePlan {
            max_ttl: SECOND * 90,
            ..OF_THREE
        },
    ];
    for other in [five, longer] {
        let why = setup_error(refused(&plan(&server.url(), other)).await);
        assert!(why.contains("3 nodes and a `max_ttl` of 60000 ms"), "{why}");
    }
    server.cmd(&["SET", "lock:@quorum", "\u{1b}strange"]).await;
    let why = setup_error(refused(&plan(&server.url(), five)).await);
    assert!(!why.contains('\u{1b}') && why.contains("strange"), "{why}");
    server.cmd(&["DEL", "lock:@quorum"]).await;
    connect(&plan(&server.url(), five)).await.unwrap();
}

#[tokio::test]
async fn what_a_node_knows_is_kept_while_it_is_used_and_a_change_is_noticed() {
    let of = NodePlan {
        max_ttl: SECOND,
        ..OF_THREE
    };
    let server = server();
    let link = connect(&plan(&server.url(), of)).await.unwrap();
    let who = claim("lock:k", "a");
    let monitor = server.monitor();
    let extended = async || {
        vote(&link, &who, 1).await;
        let lines = monitor.lines();
        lines
            .iter()
            .any(|it| it.contains("\"PEXPIRE\" \"lock:@quorum\""))
    };
    until("a vote extends it", CAP, extended).await;
    server.cmd(&["SET", "lock:@quorum", "5;1000"]).await;
    until("the connection is given up", CAP, async || {
        let _ = link.vote(&super::ballot(&who, 1, &link), CAP).await;
        !link.connection.is_usable()
    })
    .await;
}

#[tokio::test]
async fn a_user_who_may_not_ask_for_the_uptime_or_the_role_is_told_so() {
    let server = server();
    for missing in ["-info", "-role"] {
        server
            .cmd(&[
                "ACL", "SETUSER", "u", "reset", "on", ">p", "~*", "&*", "+@all", missing,
            ])
            .await;
        let url = server.url().replace("redis://", "redis://u:p@");
        let error = refused(&plan(&url, OF_THREE)).await;
        assert!(
            matches!(error, CommandError::Refused(Refusal::NoPermission, _)),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn settings_that_a_node_can_not_have_are_refused() {
    let server = RedisServer::start();
    let plan = || plan(&server.url(), OF_THREE);
    let mut without_scripts = plan();
    Arc::make_mut(&mut without_scripts.settings).without_scripts = true;
    let mut limited = plan();
    Arc::make_mut(&mut limited.settings).max_in_flight = Some(7);
    for plan in [without_scripts, limited] {
        setup_error(refused(&plan).await);
    }
    let node = connect(&plan()).await.unwrap();
    node.ping(CAP).await.unwrap();
}
