//! Follows which nodes are away and which may not vote yet, and says so when it changes.
//!
//! It decides nothing: each command sees by itself which nodes it can ask. Invariant: one line for
//! each change, however many locks meet it.

use std::sync::Weak;
use std::time::Duration;

use super::Shared;
use super::member::Standing;
use crate::observe;

/// How often the nodes are looked at.
const EVERY: Duration = Duration::from_secs(1);

pub(super) async fn watch(shared: Weak<Shared>) {
    let mut before: Vec<Option<Standing>> = Vec::new();
    loop {
        let Some(shared) = shared.upgrade() else {
            return;
        };
        before.resize(shared.members.len(), None);
        for (member, before) in shared.members.iter().zip(&mut before) {
            let ready = member.ready("", shared.clock.now());
            let connection = match ready {
                Some(connection) => Some(connection),
                None => member.connect("", shared.connect_timeout).await.ok(),
            };
            let standing = member.standing(connection.as_ref(), shared.clock.now());
            tell(member.name(), before.as_ref(), &standing);
            *before = Some(standing);
        }
        drop(shared);
        tokio::time::sleep(EVERY).await;
    }
}

fn tell(node: &str, before: Option<&Standing>, now: &Standing) {
    match (before, now) {
        (Some(Standing::Away(_)), Standing::Away(_))
        | (Some(Standing::Quarantined { .. }), Standing::Quarantined { .. })
        | (None | Some(Standing::Votes), Standing::Votes)
        | (_, Standing::Unknown) => {}
        (_, Standing::Away(why)) => {
            observe::node_away(node, why.as_deref().unwrap_or("no connection"))
        }
        (_, Standing::Quarantined { rest }) => observe::node_may_not_vote_yet(node, *rest),
        (_, Standing::Votes) => observe::node_votes_again(node),
    }
}
