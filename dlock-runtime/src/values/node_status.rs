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
            NodeStanding::Away { why } if why.is_empty() => f.write_str("is away"),
            NodeStanding::Away { why } => write!(f, "is away ({why})"),
        }
    }
}
