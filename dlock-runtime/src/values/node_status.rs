//! What a pool knows about each of the servers of which a quorum decides. It decides nothing.

use std::fmt;
use std::time::Duration;

/// One of the servers of [`Config::redlock`](crate::Config::redlock), in a
/// [`PoolStatus`](crate::PoolStatus).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStatus {
    /// The server's address, without a login.
    pub node: String,
    /// Whether it votes, and if not, why.
    pub standing: NodeStanding,
}

/// The standing of a node: whether it votes, and if not, why.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeStanding {
    /// The node votes.
    Votes,
    /// The node answers, but started a short time ago: it may have lost locks that are still held.
    Quarantined {
        /// How long until it votes.
        rest: Duration,
    },
    /// The node answers, but its clock was set: locks that are still held may have expired there.
    /// Only this process ignores its vote.
    ClockSet {
        /// How long until it votes.
        rest: Duration,
    },
    /// There is no connection to the node.
    Away {
        /// Why there is none; empty if none was tried yet.
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
