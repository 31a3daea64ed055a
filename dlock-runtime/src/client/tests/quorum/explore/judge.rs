//! What must hold in each state: S1, S3, S6 and S10; after a command (`nodes`, `acts`): S3a and S5; when a
//! body begins: S2 and S8.

use std::collections::BTreeSet;

use super::client::Client;
use super::kinds::Highest;
use super::mutants::Mutant;
use super::run::Run;
use super::seen::{Seen, Witness};
use super::world::{Fence, Whose, World, whose};
use crate::client::quorum::nodes::NodeId;

/// What a fence breaks that is too low.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It is not above that of a body that it excludes.
    AmongExcluded,
    /// It is below that of a body of the same owner.
    OfAnOwner,
}

/// S1: no two clients count on the lock that exclude each other. S3: no node has an entry that its
/// living owner neither uses nor cancels. S6: after a confirmed downgrade most nodes admit readers.
/// S10: what was taken away at all nodes does not come back at most of them, and is not renewed.
pub(super) fn judge(run: &Run, world: &World, seen: &mut Seen) -> Option<&'static str> {
    if run.judges("S1") && two_believe(run, world, seen) {
        return Some("S1");
    }
    for node in world.ids() {
        let mut is_orphan = false;
        world.each_entry(node, |entry, _| {
            let (client, token) = whose(entry);
            let owner = &world.clients[client];
            is_orphan |= owner.is_alive && !owner.answers_for(token, node);
        });
        if is_orphan && run.judges("S3") {
            return Some("S3");
        }
    }
    if run.judges("S10") && is_back(run, world) {
        return Some("S10");
    }
    let keeps_readers_out = |it: &Client| it.is_alive && is_writer_at_most(run, world, it);
    let mut clients = world.clients.iter();
    (run.downgrades && clients.any(|it| keeps_readers_out(it))).then_some("S6")
}

/// Whether a quorum of nodes has a lock that was taken away at all of them.
fn is_back(run: &Run, world: &World) -> bool {
    let Some((whose, _)) = world.evicted.filter(|_| world.is_evicted_everywhere()) else {
        return false;
    };
    let has_it = |node: &NodeId| world.is_at(*node, whose);
    world.ids().filter(has_it).count() >= run.nodes().quorum()
}

fn two_believe(run: &Run, world: &World, seen: &mut Seen) -> bool {
    let now = world.now();
    for (at, one) in world.clients.iter().enumerate() {
        if !one.believes(now) {
            continue;
        }
        for other in world.clients.iter().skip(at + 1) {
            if !other.believes(now) {
                continue;
            }
            let roles = (one.role_now(run), other.role_now(run));
            if roles.0.excludes(roles.1) {
                return true;
            }
            seen.saw(Witness::Together);
        }
    }
    false
}

/// Whether a quorum of nodes still has the writer's entry of a client whose downgrade is confirmed.
fn is_writer_at_most(run: &Run, world: &World, client: &Client) -> bool {
    let Some(current) = &client.current else {
        return false;
    };
    if !client.hold().is_some_and(|it| it.is_downgraded) {
        return false;
    }
    let writer = &*world.claim((client.at, current.token)).value;
    let is_there = |node: &NodeId| {
        let mut is_there = false;
        world.each_entry(*node, |entry, _| is_there |= entry == writer);
        is_there
    };
    world.ids().filter(is_there).count() >= run.nodes().quorum()
}

/// What a node has of others than this token.
pub(super) fn others(world: &World, node: NodeId, token: Whose) -> Vec<(Whose, u64)> {
    let mut others = Vec::new();
    world.each_entry(node, |entry, end| {
        let entry = whose(entry);
        if entry != token {
            others.push((entry, end));
        }
    });
    others
}

/// S3a, S5: what a command must not have changed, and how long the entries last. It may cut an end that
/// no command can have set yet, because the clock was set back.
pub(super) fn judge_command(
    run: &Run,
    world: &World,
    node: NodeId,
    (token, others_before): (Whose, &[(Whose, u64)]),
) -> Option<&'static str> {
    let most = world.time(node) + run.lease().as_millis() * 1000;
    let cut = |(whose, end): &(Whose, u64)| (*whose, (*end).min(most));
    let each = |all: &[(Whose, u64)]| all.iter().map(cut).collect::<BTreeSet<_>>();
    if each(&others(world, node, token)) != each(others_before) {
        return Some("S3a");
    }
    let outlasts = world.ends_after(node, most);
    (outlasts && run.judges("S5")).then_some("S5")
}

/// A body begins. S2lin: its fence is above all fences of bodies that it excludes and that had begun
/// when this acquire was sent. S2: above those that have begun by now. S8lin and S8: and not below
/// those of the same owner.
pub(super) fn judge_fence(
    run: &Run,
    client: usize,
    fence: Fence,
    (above, highest): (&Highest, &Highest),
) -> Option<&'static str> {
    let role = run.role(client);
    let name = |order, among_excluded, of_an_owner| match order {
        Order::AmongExcluded => among_excluded,
        Order::OfAnOwner => of_an_owner,
    };
    let linear = above.broken_by(role, fence);
    let linear = linear.map(|it| name(it, "S2lin", "S8lin"));
    let all = highest.broken_by(role, fence);
    let all = all.map(|it| name(it, "S2", "S8"));
    linear
        .filter(|it| run.judges(it))
        .or(all.filter(|it| run.judges(it)))
}

/// S8one: no other body of the same owner that counts on the lock has another fence.
pub(super) fn has_one_fence(run: &Run, world: &World, client: &Client, seen: &mut Seen) -> bool {
    let (now, role) = (world.now(), run.role(client.at));
    let fence = client.hold().filter(|_| role.is_owner());
    let Some(fence) = fence.map(|it| it.fence) else {
        return true;
    };
    let mut has_one = true;
    let others = world.clients.iter().filter(|it| it.at != client.at);
    for other in others.filter(|it| run.role(it.at) == role && it.believes(now)) {
        let Some(theirs) = other.hold().map(|it| it.fence) else {
            continue;
        };
        has_one &= fence == theirs;
        seen.saw(match fence.cmp(&theirs) {
            std::cmp::Ordering::Less => Witness::BesideHigher,
            std::cmp::Ordering::Equal => Witness::BesideEqual,
            std::cmp::Ordering::Greater => Witness::BesideLower,
        });
    }
    has_one
}

impl Client {
    /// As what it counts on the lock: a writer is a reader from when it asks for that.
    pub(super) fn role_now(&self, run: &Run) -> super::kinds::Role {
        let waits = run.is(Mutant::WritesUntilAnswered);
        let reads = |it: &super::client::Hold| {
            if waits { it.is_downgraded } else { it.reads }
        };
        if self.hold().is_some_and(reads) {
            super::kinds::Role::Reads
        } else {
            run.role(self.at)
        }
    }
}
