//! A new connection to a server whose counter and clock are behind.

use std::sync::Arc;

use dlock_harness::RedisServer;

use super::lab::{FENCES, HOUR, assert_refused, plan};
use crate::link::command_error::CommandError;
use crate::link::redis::epochs::LARGEST_EPOCH;
use crate::link::redis::link::RedisLink;
use crate::topology::server::connect::connect;
use crate::values::error::Refusal;

/// Connects as a pool that was given this epoch.
async fn connect_after(
    url: &str,
    epoch: u64,
    without_scripts: bool,
) -> Result<RedisLink, CommandError> {
    let mut plan = plan(url);
    Arc::make_mut(&mut plan.settings).without_scripts = without_scripts;
    plan.highest_epoch.given(epoch);
    connect(&plan).await
}

/// An hour ahead of the server's clock.
async fn in_an_hour(server: &RedisServer) -> u64 {
    let (seconds, micros): (u64, u64) = server.ask(&["TIME"]).await;
    seconds * 1_000_000 + micros + HOUR
}

async fn counter(server: &RedisServer) -> Option<String> {
    server.ask(&["GET", FENCES]).await
}

#[tokio::test]
async fn the_counter_is_raised_before_the_connection_is_used() {
    let server = RedisServer::start();
    let ahead = in_an_hour(&server).await;
    let larger = (ahead + 7).to_string();
    let foreign = LARGEST_EPOCH.to_string();
    let raised = ahead.to_string();
    for without_scripts in [false, true] {
        for (there, then) in [
            (None, &raised),
            (Some("17"), &raised),
            (Some("no number"), &raised),
            (Some(foreign.as_str()), &raised),
            (Some(raised.as_str()), &raised),
            (Some(larger.as_str()), &larger),
        ] {
            server.cmd(&["FLUSHALL"]).await;
            if let Some(there) = there {
                server.cmd(&["SET", FENCES, there]).await;
            }
            let connected = connect_after(&server.url(), ahead, without_scripts).await;
            connected.expect("a connection");
            let found = counter(&server).await;
            assert_eq!(found.as_ref(), Some(then), "{there:?} {without_scripts}");
        }
    }
}

#[tokio::test]
async fn a_clock_that_is_past_all_epochs_needs_no_counter() {
    let server = RedisServer::start();
    let past = in_an_hour(&server).await - 2 * HOUR;
    for epoch in [0, past, LARGEST_EPOCH + 1, u64::MAX] {
        for without_scripts in [false, true] {
            let connected = connect_after(&server.url(), epoch, without_scripts).await;
            connected.expect("a connection");
            assert_eq!(counter(&server).await, None, "{epoch}");
        }
    }
}

#[tokio::test]
async fn without_the_right_to_raise_it_there_is_no_connection() {
    let server = RedisServer::start();
    let ahead = in_an_hour(&server).await;
    let rights = ["ACL", "SETUSER", "default", "-set"];
    server.cmd(&rights).await;
    for without_scripts in [false, true] {
        let refused = connect_after(&server.url(), ahead, without_scripts).await;
        assert_refused(refused, Refusal::NoPermission);
        assert_eq!(counter(&server).await, None);
    }
}

#[tokio::test]
async fn of_many_pools_the_highest_epoch_stays() {
    let server = RedisServer::start();
    let ahead = in_an_hour(&server).await;
    let (url, server) = (server.url(), &server);
    let mut all = tokio::task::JoinSet::new();
    for it in 0..24 {
        let url = url.clone();
        all.spawn(async move { connect_after(&url, ahead + it, true).await.map(drop) });
    }
    while let Some(connected) = all.join_next().await {
        connected.expect("no panic").expect("a connection");
    }
    assert_eq!(counter(server).await, Some((ahead + 23).to_string()));
}
