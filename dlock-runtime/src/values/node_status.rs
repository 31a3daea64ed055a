//! What a pool knows about each of the servers of which a quorum decides. It decides nothing.

use std::fmt;
use std::time::Duration;

/// One of the servers of [`Config::redlock`](crate::Config::redlock), in a
/// [`PoolStatus`](crate::PoolStatus).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// Its address, without a login.
    pub node: String,
    /// Whether its vote can be had.
    pub standing: NodeStanding,
}

/// Whether a node's vote can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeStanding {
    /// It votes.
    Votes,
    /// It answers, but was started a short time ago: it may have lost locks that are still held.
    Quarantined {
        /// How long it does not vote yet.
        rest: Duration,
    },
    /// It answers, but its clock was set: locks that are still held may have ended there. Only this
    /// process leaves its vote out.
    ClockSet {
        /// How long it does not vote yet.
        rest: Duration,
    },
    /// There is no connection to it.
    Away {
        /// Why; empty if it was not tried yet.
        why: String,
    },
}

impl NodeStatus {
    pub(crate) fn new(node: &str, standing: NodeStanding) -> Self {
        Self {
            node: node.to_owned(),
            standing,
        }
    }
}

impl NodeStanding {
    /// The same, for a node that does not vote for another `rest` because its clock was set.
    pub(crate) fn or_clock_set(self, rest: Duration) -> Self {
        let longer = match &self {
            NodeStanding::Votes => !rest.is_zero(),
            NodeStanding::Quarantined { rest: waits } => rest > *waits,
            NodeStanding::ClockSet { .. } | NodeStanding::Away { .. } => false,
        };
        if longer {
            NodeStanding::ClockSet { rest }
        } else {
            self
        }
    }
}

impl fmt::Display for NodeStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeStanding::Votes => f.write_str("votes"),
            NodeStanding::Quarantined { rest } => {
                let seconds = rest.as_secs() + 1;
                write!(
                    f,
                    "does not vote for another {seconds} s, because it was started a short time ago"
                )
            }
            NodeStanding::ClockSet { rest } => {
                let seconds = rest.as_secs() + 1;
                write!(
                    f,
                    "does not vote for another {seconds} s, because its clock was set"
                )
            }
            NodeStanding::Away { why } if why.is_empty() => f.write_str("is away"),
            NodeStanding::Away { why } => write!(f, "is away ({why})"),
        }
    }
}
