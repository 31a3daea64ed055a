//! What must hold in each state: S1, S3 and S5. S2 is judged when a body begins (`acts`).

use super::run::Run;
use super::world::{Fence, KEY, World};
use crate::policy::quorum::nodes::NodeId;

/// S1: at most one client counts on the lock. S3: no node has a key that its living owner neither
/// uses nor cancels. S5: no key outlasts a ttl from now, hence none the last command by more.
pub(super) fn judge(run: &Run, world: &World) -> Option<&'static str> {
    let now = world.now();
    let believers = world.clients.iter().filter(|it| it.believes(now)).count();
    if believers > 1 && run.judges("S1") {
        return Some("S1");
    }
    for node in world.ids() {
        let Some((client, token)) = world.holder(node) else {
            continue;
        };
        let owner = &world.clients[client];
        if owner.is_alive && run.judges("S3") && !owner.answers_for(token, node) {
            return Some("S3");
        }
    }
    None
}

/// S5, after a node has executed a command: what may be left of the key.
pub(super) fn outlasts(run: &Run, world: &World, node: NodeId) -> bool {
    let most = world.time(node) + run.lease().as_millis() * 1000;
    (world.node(node).server.expires(KEY)).is_some_and(|ends| ends > most)
}

/// S2lin: above all fences whose bodies had begun when this acquire was sent. S2: above those that
/// have begun by now.
pub(super) fn judge_fence(
    run: &Run,
    fence: Fence,
    above: Fence,
    highest: Fence,
) -> Option<&'static str> {
    if fence <= above && run.judges("S2lin") {
        Some("S2lin")
    } else if fence <= highest && run.judges("S2") {
        Some("S2")
    } else {
        None
    }
}
