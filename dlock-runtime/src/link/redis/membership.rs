//! The quorum that a node belongs to: what the node keeps about it, and what a connection knows of
//! that. It opens no connection and sends nothing.
//!
//! Invariant: all programs of a fleet tell a node the same text.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::Value;

use super::reply;
use crate::client::clock_watch::ClockAnswer;
use crate::link::command_error::CommandError;
use crate::values::error::Reason;
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
    /// The number of the channel where nodes tell this pool's holders that they were evicted. A holder's
    /// entry is the same at all of them, so that it can't name a connection.
    pub(crate) pool: u64,
}

/// The server tells whole seconds of its uptime.
const UPTIME_STEP: Duration = Duration::from_secs(1);

impl NodePlan {
    /// The arguments of `quorum.lua`: what the node keeps about its quorum, equal in all programs,
    /// and for how many milliseconds.
    pub(super) fn arguments(&self) -> [String; 2] {
        let known_for = ttl::millis(self.known_for());
        let text = format!("{};{}", self.nodes, ttl::millis(self.max_ttl));
        [text, known_for.to_string()]
    }

    /// Reads the reply of `quorum.lua`.
    pub(super) fn said(&self, answer: &Value) -> Result<(), CommandError> {
        match answer {
            Value::Int(1) => Ok(()),
            other => match reply::text(other) {
                Some(there) => Err(self.disagrees(&there)),
                None => Err(reply::unexpected("quorum", other)),
            },
        }
    }

    /// For how long a node keeps it.
    fn known_for(&self) -> Duration {
        known_for(self.max_ttl)
    }

    /// From when on a server that had this uptime just before `received` may vote.
    pub(super) fn votes_from(&self, uptime: Duration, received: Moment) -> Moment {
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

/// What a connection knows about its node's membership, and when the node was last told.
#[derive(Debug)]
pub(crate) struct Membership {
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
    pub(crate) fn new(plan: NodePlan, key: &str, votes_from: Moment, clock: ClockAnswer) -> Self {
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

    pub(super) fn plan(&self) -> &NodePlan {
        &self.plan
    }

    /// The key at which the node keeps it.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The node was told again.
    pub(super) fn told(&self, now: Moment) {
        self.told.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The node was last told so long ago that it may have forgotten.
    pub(super) fn may_have_forgotten(&self, now: Moment) -> bool {
        let told = Moment::from_nanos(self.told.load(Ordering::Relaxed));
        told.until(now) >= self.plan.known_for()
    }

    /// Whether the node has to be told again, by the caller.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        let told = self.told.load(Ordering::Relaxed);
        Moment::from_nanos(told).until(now) >= self.plan.max_ttl / 2
            && self
                .told
                .compare_exchange(told, now.as_nanos(), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

/// For how long a node keeps what it knows about a quorum with this `max_ttl`.
fn known_for(max_ttl: Duration) -> Duration {
    max_ttl.saturating_mul(2)
}

fn is_number(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_digit())
}
