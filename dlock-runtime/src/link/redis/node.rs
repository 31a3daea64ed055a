//! The handshake with a node of a quorum, and what its connection tells it again: the server is a
//! master without replicas, belongs to this quorum only, and has been up for long enough to vote.
//!
//! Invariants: a node that may have lost its data less than `max_ttl` ago does not vote; two
//! programs with another number of nodes or another `max_ttl` never use a node at the same time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::link::connection::Connection;
use super::membership::{Membership, NodePlan};
use super::plan::Plan;
use super::reads::Reads;
use super::scripts::{self, Script};
use super::{errors, reply};
use crate::link::command_error::CommandError;
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;

/// Why a pool with these settings can't use its server as a node.
pub(crate) fn unfit_settings(plan: &Plan, is_discovered: bool) -> Option<&'static str> {
    if is_discovered {
        Some(
            "a node of a quorum is one server, and sentinels would replace it by an empty one: give its own address",
        )
    } else if plan.settings.without_scripts {
        Some("a node of a quorum needs scripts: leave out `Config::without_scripts()`")
    } else if plan.settings.max_in_flight.is_some() {
        Some(
            "with `Config::max_in_flight` the commands to a node of a quorum have no order: leave it out",
        )
    } else if plan.settings.durability.is_asked_for() {
        Some("a node of a quorum has no replicas: leave out `min_replicas` and `min_aof`")
    } else {
        None
    }
}

/// The error of a server that is not alone: a replica could take its place, without the votes that
/// it gave.
fn not_alone(what: &str) -> CommandError {
    CommandError::Setup(Reason::new(format_args!(
        "the server is {what}, and a node of a quorum is a master without replicas: a failover would lose votes, and nobody would see it",
    )))
}

/// The error of `HELLO` as that of a node.
pub(crate) fn refusal_as_node(error: CommandError) -> CommandError {
    match error {
        CommandError::Refused(Refusal::ReadOnly, _) => not_alone("a replica"),
        error => error,
    }
}

/// Completes the handshake with a node: checks its role, and tells it its quorum. Returns from when
/// on it may vote. `uptime` as the server told it just before `received`.
pub(crate) async fn join(
    plan: &NodePlan,
    key: &str,
    mut connection: MultiplexedConnection,
    reads: Reads,
    uptime: Option<Duration>,
    received: Moment,
) -> Result<Moment, CommandError> {
    let Some(uptime) = uptime else {
        return Err(CommandError::Refused(
            Refusal::NoPermission,
            Reason::new(
                "a node of a quorum must report its run id and its uptime; type `ACL SETUSER <user> +info`",
            ),
        ));
    };
    let role: Result<Value, _> = Cmd::new().arg("ROLE").query_async(&mut connection).await;
    check_role(&role.map_err(|error| errors::handshake_error(&error))?)?;
    let arguments = plan.arguments();
    let arguments = arguments.each_ref().map(|it| &**it);
    let call = |by| scripts::QUORUM.call(by, &[key], &arguments);
    match Script::run(&mut connection, reads, call).await {
        Ok(answer) => plan.said(&answer)?,
        // Then no vote creates anything either, and votes must be taken back all the same.
        Err(error) => match errors::handshake_error(&error) {
            CommandError::Refused(Refusal::OutOfMemory, _) => {}
            error => return Err(errors::of_companion(key, error)),
        },
    }
    // So that commands that are sent one right behind the other are not refused by the first one's
    // unknown hash. If the user may not, they are sent by text.
    let mut load = redis::pipe();
    load.cmd("SCRIPT")
        .arg("LOAD")
        .arg(scripts::NODE.text(reads));
    load.ignore_errors();
    let _: Result<Value, _> = load.query_async(&mut connection).await;
    Ok(plan.votes_from(uptime, received))
}

fn check_role(role: &Value) -> Result<(), CommandError> {
    let Value::Array(items) = role else {
        return Err(reply::unexpected("ROLE", role));
    };
    let name = items.first().and_then(reply::text).unwrap_or_default();
    match (&*name, items.get(2)) {
        ("master", Some(Value::Array(replicas))) if replicas.is_empty() => Ok(()),
        ("master", Some(Value::Array(replicas))) => Err(not_alone(&format!(
            "a master with {} {}",
            replicas.len(),
            if replicas.len() == 1 {
                "replica"
            } else {
                "replicas"
            },
        ))),
        ("slave", _) => Err(not_alone("a replica")),
        ("sentinel", _) => Err(not_alone("a sentinel")),
        _ => Err(reply::unexpected("ROLE", role)),
    }
}

impl Connection {
    /// The node keeps its quorum for no longer than this connection has not told it.
    pub(super) fn node_may_have_forgotten(&self) -> bool {
        let now = self.clock.now();
        let node = self.node.as_ref();
        node.is_some_and(|node| node.may_have_forgotten(now))
    }

    /// Tells the node its quorum again, in the background, if it is time.
    pub(super) fn remind_node(self: &Arc<Self>) {
        if self.node_is_due() {
            let connection = self.clone();
            self.runtime.spawn(async move {
                connection.tell_node(connection.command_timeout).await;
            });
        }
    }

    pub(super) fn node_is_due(&self) -> bool {
        let due = |node: &Membership| node.is_due(self.clock.now());
        self.node.as_ref().is_some_and(due)
    }

    /// Gives the connection up if the node belongs to another quorum by now; the next handshake
    /// says so.
    pub(super) async fn tell_node(&self, within: Duration) {
        let Some(node) = &self.node else { return };
        let arguments = node.plan().arguments();
        let (arguments, keys) = (arguments.each_ref().map(|it| &**it), [node.key()]);
        let answer = pin!(self.script(&scripts::QUORUM, &keys, &arguments, within));
        let now = self.clock.now();
        if let Ok((answer, _)) = answer.await {
            match node.plan().said(&answer) {
                Ok(()) => node.told(now),
                Err(CommandError::Setup(_)) => self.give_up(),
                Err(_) => {}
            }
        }
    }
}
