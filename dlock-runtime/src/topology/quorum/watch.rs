//! Follows which nodes are away and which may not vote yet, and says so when it changes; reminds each
//! node of its quorum.
//!
//! It decides nothing: each command sees by itself which nodes it can ask. Invariants: one line for
//! each change, however many locks meet it; while the pool lives, a node that answers belongs to its
//! quorum.

use std::sync::{PoisonError, Weak};
use std::time::Duration;

use super::QuorumShared;
use crate::client::quorum::nodes::NodeId;
use crate::observe;
use crate::values::node_status::NodeStanding;

/// How often the nodes are looked at.
const EVERY: Duration = Duration::from_secs(1);

pub(super) async fn watch(shared: Weak<QuorumShared>) {
    loop {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        for (node, member) in shared.members() {
            let ready = member.ready("", shared.clock.now());
            let connection = match ready {
                Some(connection) => {
                    member.found(&*connection);
                    Some(connection)
                }
                None => member.connect("", shared.connect_timeout).await.ok(),
            };
            if let Some(connection) = &connection {
                connection.remind();
                shared.hear_clock(node, &**connection);
            }
            let now = shared.clock.now();
            let standing = shared.standing((node, member), connection.as_ref(), now);
            shared.tell(node, member.name(), standing);
        }
        drop(shared);
        tokio::time::sleep(EVERY).await;
    }
}

impl QuorumShared {
    /// Logs a node's standing, if it changed.
    pub(super) fn tell(&self, node: NodeId, name: &str, now: NodeStanding) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = told.get_mut(node.index()) {
            tell(name, told.as_ref(), &now);
            *told = Some(now);
        }
    }
}

fn tell(node: &str, before: Option<&NodeStanding>, now: &NodeStanding) {
    use NodeStanding::{Away, ClockSet, Quarantined, Votes};
    match (before, now) {
        (Some(Away { .. }), Away { .. })
        | (Some(ClockSet { .. }), ClockSet { .. })
        | (Some(Quarantined { .. }), Quarantined { .. })
        | (None | Some(Votes), Votes) => {}
        (_, Away { why }) => observe::node_away(node, why),
        (_, Quarantined { rest }) => observe::node_may_not_vote_yet(node, *rest),
        (_, ClockSet { rest }) => observe::node_clock_was_set(node, *rest),
        (_, Votes) => observe::node_votes_again(node),
    }
}
