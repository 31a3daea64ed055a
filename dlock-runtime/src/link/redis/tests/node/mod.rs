//! Tests of a server as a node of a quorum: `handshake` when it is one, `commands` what it answers,
//! `batches` many callers at once, `refusals` a node that refuses; `cost` measures. That it answers
//! like the pure machine is in `tests::alike`.

mod batches;
mod commands;
mod cost;
mod handshake;
mod refusals;

use std::sync::{Arc, Weak};
use std::time::Duration;

use dlock_harness::RedisServer;

use super::lab::{self, CAP, HOUR, Heard, seconds};
use crate::link::command_error::CommandError;
use crate::link::redis::link::RedisLink;
use crate::link::redis::membership::NodePlan;
use crate::link::redis::names::Names;
use crate::link::redis::plan::Plan;
use crate::link::{Link, Listener};
use crate::rules::ballots::{Ballot, Vote};
use crate::rules::commands::{Cancelled, Claim, Keep};
use crate::topology::server::connect::connect;
use crate::values::entry;
use crate::values::kind::Kind;

const OF_THREE: NodePlan = NodePlan {
    max_ttl: Duration::from_secs(60),
    nodes: 3,
    pool: 7,
};

fn plan(url: &str, node: NodePlan) -> Plan {
    Plan {
        names: Names::of_node("lock:"),
        node: Some(node),
        ..lab::plan(url)
    }
}

pub(super) async fn link(url: &str) -> RedisLink {
    connect(&plan(url, OF_THREE)).await.expect("a node")
}

pub(super) async fn listening(url: &str, heard: &Arc<Heard>) -> RedisLink {
    listening_as(url, OF_THREE, heard).await
}

async fn listening_as(url: &str, node: NodePlan, heard: &Arc<Heard>) -> RedisLink {
    let (plan, listener) = (plan(url, node), Arc::downgrade(heard));
    let _ = plan.listener.set(listener as Weak<dyn Listener>);
    connect(&plan).await.expect("a node")
}

/// Two locks that draw from one counter.
pub(super) fn of_one_counter() -> [String; 2] {
    let names = Names::of_node("lock:");
    let first = "lock:{a}".to_owned();
    let counter = names.of(&first).counter.into_owned();
    let other = (0..).map(|it| format!("lock:{it}"));
    let other = other.into_iter().find(|it| names.of(it).counter == counter);
    [first, other.expect("there are 1024 counters")]
}

/// The error with which a node's handshake ends.
async fn refused(plan: &Plan) -> CommandError {
    match connect(plan).await {
        Err(error) => error,
        Ok(_) => panic!("it is a node"),
    }
}

pub(super) fn claim(key: &str, token: &str) -> Claim {
    of_kind(&Kind::Exclusive, key, token)
}

pub(super) fn of_kind(kind: &Kind, key: &str, token: &str) -> Claim {
    let value = entry::of_test(kind, token, "", seconds(30), "host|1|f|0");
    lab::claim(key, &value)
}

/// A ballot with a lease of 30 s, that wants a hint.
fn ballot(claim: &Claim, proposal: u64, link: &RedisLink) -> Ballot {
    Ballot {
        claim: claim.clone(),
        lease: seconds(30),
        not_after: link.server_time() + HOUR,
        proposal,
        hint_to: link.address().cloned().unwrap_or_else(|| "".into()),
    }
}

async fn vote(link: &RedisLink, claim: &Claim, proposal: u64) -> Vote {
    let ballot = ballot(claim, proposal, link);
    link.vote(&ballot, CAP).await.expect("a vote")
}

async fn take_back(link: &RedisLink, claim: &Claim) -> Cancelled {
    let answer = link.take_back(claim, Keep::NOT, 0, CAP).await;
    answer.expect("an answer")
}

/// A server whose votes nobody waits for.
pub(super) fn server() -> RedisServer {
    RedisServer::start()
}
