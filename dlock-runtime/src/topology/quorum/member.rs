//! One of the servers of a quorum, and what this pool knows about it: whether it answers, how fast,
//! and how far its clock is ahead.
//!
//! It counts no votes. Invariant: a node without a connection is connected to behind the callers,
//! so none of them waits for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::client::quorum::clocks::Offset;
use crate::link::command_error::CommandError;
use crate::link::{Node, NodeBackend};
use crate::values::moment::Moment;
use crate::values::node_status::{NodeStanding, NodeStatus};

/// A node that could not be connected to is tried again after this long.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// A stamp for a node counts at most this long after the lease that it is about.
const BEHIND_THE_LEASE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Member {
    /// Its address, for errors and the log.
    name: String,
    backend: Arc<dyn NodeBackend>,
    known: Mutex<MemberState>,
    /// A smoothed time between a command and its answer, in µs; 0: none is known.
    round_trip: AtomicU64,
    connect_timeout: Duration,
}

#[derive(Debug)]
struct MemberState {
    offset: Offset,
    /// From when on the process votes that was connected to last; or why none could be.
    standing: Result<Moment, String>,
    /// The runtimes that are connecting to it, or have failed to until this time.
    connecting: Vec<(Id, Moment)>,
}

impl Member {
    pub(super) fn new(
        name: String,
        backend: Arc<dyn NodeBackend>,
        (max_ttl, connect_timeout): (Duration, Duration),
        now: Moment,
    ) -> Self {
        Self {
            name,
            backend,
            known: Mutex::new(MemberState {
                offset: Offset::new(max_ttl + BEHIND_THE_LEASE, now),
                standing: Err(String::new()),
                connecting: Vec::new(),
            }),
            round_trip: AtomicU64::new(0),
            connect_timeout,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn backend(&self) -> &dyn NodeBackend {
        &*self.backend
    }

    /// Its connection of the current runtime. Without one, connects behind the caller.
    pub(super) fn ready(self: &Arc<Self>, key: &str, now: Moment) -> Option<Arc<dyn Node>> {
        let ready = self.backend.ready_node(key, now);
        if ready.is_none() {
            self.connect_behind(key, now);
        }
        ready
    }

    fn connect_behind(self: &Arc<Self>, key: &str, now: Moment) {
        let Ok(here) = Handle::try_current() else {
            return;
        };
        let mut known = self.known();
        known.connecting.retain(|(_, until)| *until > now);
        if known.connecting.iter().any(|(id, _)| *id == here.id()) {
            return;
        }
        let until = now.plus(self.connect_timeout + TRY_AGAIN_AFTER);
        known.connecting.push((here.id(), until));
        drop(known);
        let (member, key) = (self.clone(), key.to_owned());
        here.spawn(async move {
            let _ = member.connect(&key, member.connect_timeout).await;
        });
    }

    /// Connects, and notes how that went.
    pub(super) async fn connect(
        &self,
        key: &str,
        within: Duration,
    ) -> Result<Arc<dyn Node>, CommandError> {
        let connected = self.backend.connect_node(key, within).await;
        self.known().standing = match &connected {
            Ok(node) => Ok(node.votes_from()),
            Err(error) => Err(error.to_string()),
        };
        connected
    }

    /// There is a connection to it.
    pub(super) fn found(&self, node: &dyn Node) {
        self.known().standing = Ok(node.votes_from());
    }

    /// A node's answer took this long.
    pub(super) fn took(&self, time: Duration) {
        let time = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
        let before = self.round_trip.load(Ordering::Relaxed);
        let smoothed = if before == 0 {
            time
        } else {
            before - before / 8 + time / 8
        };
        self.round_trip.store(smoothed.max(1), Ordering::Relaxed);
    }

    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_micros(self.round_trip.load(Ordering::Relaxed))
    }

    /// This node's stamp for a `not_after` by the pool's clock.
    pub(super) fn stamp(&self, node: &dyn Node, not_after: u64, now: Moment) -> u64 {
        let offset = &mut self.known().offset;
        offset.heard(node.server_time_at(now), now);
        offset.stamp(not_after)
    }

    /// What was last known of it.
    pub(super) fn status(&self, now: Moment) -> NodeStatus {
        let standing = match &self.known().standing {
            Ok(from) => standing(*from, now),
            Err(why) => NodeStanding::Away { why: why.clone() },
        };
        NodeStatus::new(&self.name, standing)
    }

    /// Its standing over this connection.
    pub(super) fn standing(&self, node: Option<&Arc<dyn Node>>, now: Moment) -> NodeStanding {
        match (node, &self.known().standing) {
            (Some(node), _) => standing(node.votes_from(), now),
            (None, Err(why)) => NodeStanding::Away { why: why.clone() },
            (None, Ok(_)) => NodeStanding::Away { why: String::new() },
        }
    }

    fn known(&self) -> MutexGuard<'_, MemberState> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn standing(votes_from: Moment, now: Moment) -> NodeStanding {
    let rest = now.until(votes_from);
    if rest.is_zero() {
        NodeStanding::Votes
    } else {
        NodeStanding::Quarantined { rest }
    }
}
