//! One of the servers of a quorum, and what this pool knows about it: whether it answers, how fast,
//! and how far its clock is ahead.
//!
//! It counts no votes. Invariant: a node without a connection is connected to behind the callers,
//! so none of them waits for it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

use crate::backend::command_error::CommandError;
use crate::backend::{Node, NodeBackend};
use crate::policy::quorum::clocks::Offset;
use crate::values::error::Reason;
use crate::values::moment::Moment;

/// A node that could not be connected to is tried again after this long.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(250);

/// A stamp for a node counts at most this long after the lease that it is about.
const BEHIND_THE_LEASE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Member {
    /// Its address, for errors and the log.
    name: String,
    backend: Arc<dyn NodeBackend>,
    known: Mutex<Known>,
    /// A smoothed time between a command and its answer, in µs; 0: none is known.
    round_trip: AtomicU64,
    connect_timeout: Duration,
}

#[derive(Debug)]
struct Known {
    offset: Offset,
    /// Why it could not be connected to the last time.
    failed: Option<Reason>,
    /// The runtimes that are connecting to it, or have failed to until this time.
    connecting: Vec<(Id, Moment)>,
}

/// Whether a node can be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Votes,
    /// Its process began a short time ago: it may have lost locks that are still held.
    Quarantined {
        rest: Duration,
    },
    Away(Option<String>),
    Unknown,
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
            known: Mutex::new(Known {
                offset: Offset::new(max_ttl + BEHIND_THE_LEASE, now),
                failed: None,
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
        self.known().failed = match &connected {
            Ok(_) => None,
            Err(error) => Some(error.clone().reason()),
        };
        connected
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

    /// This node's stamps for bounds by the pool's clock.
    pub(super) fn stamps<const N: usize>(
        &self,
        node: &dyn Node,
        bounds: [u64; N],
        now: Moment,
    ) -> [u64; N] {
        let offset = &mut self.known().offset;
        offset.heard(node.server_time_at(now), now);
        bounds.map(|bound| offset.stamp(bound))
    }

    pub(super) fn standing(&self, connection: Option<&Arc<dyn Node>>, now: Moment) -> Standing {
        match connection {
            None => Standing::Away(self.known().failed.as_ref().map(ToString::to_string)),
            Some(node) if node.votes_from() > now => Standing::Quarantined {
                rest: now.until(node.votes_from()),
            },
            Some(_) => Standing::Votes,
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Votes => f.write_str("votes"),
            Standing::Quarantined { rest } => {
                let seconds = rest.as_secs() + 1;
                write!(
                    f,
                    "does not vote for another {seconds} s, because it was started a short time ago"
                )
            }
            Standing::Away(None) => f.write_str("is away"),
            Standing::Away(Some(why)) => write!(f, "is away ({why})"),
            Standing::Unknown => f.write_str("is unknown"),
        }
    }
}
