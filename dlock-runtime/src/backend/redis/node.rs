//! What makes a connection one to a node of a quorum: the server is a master without replicas,
//! belongs to this quorum only, and has been up for long enough to vote.
//!
//! Invariants: a node that may have lost its data less than `max_ttl` ago does not vote; two
//! programs with another number of nodes or another `max_ttl` never use a node at the same time.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};

use super::link::connection::Connection;
use super::plan::Plan;
use super::scripts::{self, Script};
use super::{errors, reply};
use crate::backend::command_error::CommandError;
use crate::policy::clock_watch::ClockAnswer;
use crate::values::error::{Reason, Refusal};
use crate::values::moment::Moment;
use crate::values::shown::{NAME_AT_MOST, shown};
use crate::values::ttl;

/// The quorum that a server is a node of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodePlan {
    /// The longest lease of the whole fleet.
    pub(crate) max_ttl: Duration,
    /// How many nodes are configured.
    pub(crate) nodes: usize,
}

/// The server tells whole seconds of its uptime.
const UPTIME_STEP: Duration = Duration::from_secs(1);

impl NodePlan {
    /// What the node keeps about its quorum; equal in all programs.
    fn text(&self) -> String {
        format!("{};{}", self.nodes, ttl::millis(self.max_ttl))
    }

    /// For how long a node keeps it.
    fn known_for(&self) -> Duration {
        known_for(self.max_ttl)
    }

    /// From when on a server that had this uptime just before `received` may vote.
    fn votes_from(&self, uptime: Duration, received: Moment) -> Moment {
        received.plus((self.max_ttl + UPTIME_STEP).saturating_sub(uptime))
    }

    /// A node that disagrees about the quorum.
    fn disagrees(&self, there: &str) -> CommandError {
        let known = there.split_once(';').and_then(|(nodes, millis)| {
            let millis = millis.parse().ok().filter(|_| is_number(nodes))?;
            Some((nodes, millis, Duration::from_millis(millis)))
        });
        let (there, known_for) = match known {
            Some((nodes, millis, max_ttl)) => (
                format!("{nodes} nodes and a `max_ttl` of {millis} ms"),
                known_for(max_ttl),
            ),
            None => (
                format!("\"{}\"", shown(there, NAME_AT_MOST)),
                self.known_for(),
            ),
        };
        CommandError::Setup(Reason::new(format_args!(
            "the programs of the fleet disagree about the quorum: this node belongs to one with {there}, and this program has {} nodes and a `max_ttl` of {} ms; give all programs the same, or stop those of the other and start again after {known_for:?}",
            self.nodes,
            ttl::millis(self.max_ttl),
        )))
    }
}

/// For how long a node keeps what it knows about a quorum with this `max_ttl`.
fn known_for(max_ttl: Duration) -> Duration {
    max_ttl.saturating_mul(2)
}

fn is_number(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit())
}

/// Why a pool with these settings can't use its server as a node.
pub(super) fn unfit_settings(plan: &Plan, is_discovered: bool) -> Option<&'static str> {
    if is_discovered {
        Some(
            "a node of a quorum is one server, and sentinels would replace it by an empty one: give its own address",
        )
    } else if plan.without_scripts {
        Some("a node of a quorum needs scripts: leave out `Config::without_scripts()`")
    } else if plan.max_in_flight.is_some() {
        Some(
            "with `Config::max_in_flight` the commands to a node of a quorum have no order: leave it out",
        )
    } else if plan.durability.is_asked_for() {
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
pub(super) fn refusal_as_node(error: CommandError) -> CommandError {
    match error {
        CommandError::Refused(Refusal::ReadOnly, _) => not_alone("a replica"),
        error => error,
    }
}

/// Completes the handshake with a node: checks its role, and tells it its quorum. Returns from when
/// on it may vote. `uptime` as the server told it just before `received`.
pub(super) async fn join(
    plan: &NodePlan,
    key: &str,
    mut connection: MultiplexedConnection,
    uptime: Option<Duration>,
    received: Moment,
) -> Result<Moment, CommandError> {
    let Some(uptime) = uptime else {
        return Err(CommandError::Refused(
            Refusal::NoPermission,
            Reason::new(
                "a node of a quorum has to tell its run id and its uptime; type `ACL SETUSER <user> +info`",
            ),
        ));
    };
    let role: Result<Value, _> = Cmd::new().arg("ROLE").query_async(&mut connection).await;
    check_role(&role.map_err(|error| errors::handshake_error(&error))?)?;
    let (text, known_for) = (plan.text(), ttl::millis(plan.known_for()));
    let call = |by| scripts::QUORUM.call(by, &[key], &[&*text, &known_for.to_string()]);
    match Script::run(&mut connection, call).await {
        Ok(answer) => said(plan, &answer)?,
        // Then no vote creates anything either, and votes must be taken back all the same.
        Err(error) => match errors::handshake_error(&error) {
            CommandError::Refused(Refusal::OutOfMemory, _) => {}
            error => return Err(error),
        },
    }
    // So that commands that are sent one right behind the other are not refused by the first one's
    // unknown hash. If the user may not, they are sent by text.
    let mut load = redis::pipe();
    for script in [&scripts::NODE, &scripts::NODE_SHARED] {
        load.cmd("SCRIPT").arg("LOAD").arg(script.text());
    }
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

/// The reply of `quorum.lua`.
fn said(plan: &NodePlan, answer: &Value) -> Result<(), CommandError> {
    match answer {
        Value::Int(1) => Ok(()),
        other => match reply::text(other) {
            Some(there) => Err(plan.disagrees(&there)),
            None => Err(reply::unexpected("quorum", other)),
        },
    }
}

/// Keeps what the node knows about its quorum, for as long as the connection is used.
#[derive(Debug)]
pub(super) struct Membership {
    plan: NodePlan,
    key: Box<str>,
    pub(super) votes_from: Moment,
    /// When the node was last told, in nanoseconds of the pool's clock.
    told: AtomicU64,
    /// Its time in its latest answer.
    clock: Mutex<ClockAnswer>,
}

impl Membership {
    /// `clock`: the node's time in the handshake.
    pub(super) fn new(plan: NodePlan, key: &str, votes_from: Moment, clock: ClockAnswer) -> Self {
        Self {
            plan,
            key: key.into(),
            votes_from,
            told: AtomicU64::new(clock.heard.as_nanos()),
            clock: Mutex::new(clock),
        }
    }

    pub(super) fn heard(&self, answer: ClockAnswer) {
        *self.clock() = answer;
    }

    pub(super) fn latest(&self) -> ClockAnswer {
        *self.clock()
    }

    fn clock(&self) -> MutexGuard<'_, ClockAnswer> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the node has to be told again, by the caller.
    fn is_due(&self, now: Moment) -> bool {
        let told = self.told.load(Ordering::Relaxed);
        Moment::from_nanos(told).until(now) >= self.plan.max_ttl / 2
            && self
                .told
                .compare_exchange(told, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

impl Connection {
    /// The node keeps its quorum for no longer than this connection has not told it.
    pub(super) fn node_may_have_forgotten(&self) -> bool {
        self.node.as_ref().is_some_and(|node| {
            let told = Moment::from_nanos(node.told.load(Ordering::Relaxed));
            told.until(self.clock.now()) >= node.plan.known_for()
        })
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
        let (text, known_for) = (node.plan.text(), ttl::millis(node.plan.known_for()));
        let arguments = [&*text, &known_for.to_string()];
        let keys = [&*node.key];
        let answer = pin!(self.script(&scripts::QUORUM, &keys, &arguments, within));
        let now = self.clock.now();
        if let Ok((answer, _)) = answer.await {
            match said(&node.plan, &answer) {
                Ok(()) => node.told.store(now.as_nanos(), Ordering::Relaxed),
                Err(CommandError::Setup(_)) => self.give_up(),
                Err(_) => {}
            }
        }
    }
}
