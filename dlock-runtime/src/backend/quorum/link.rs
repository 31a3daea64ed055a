//! The protocol's commands over a connection to each node: a command goes to all of them at once,
//! and its answer is there as soon as a quorum has decided.
//!
//! Invariants: a command about a claim goes to every node where something of it may be left; a node
//! that hangs costs its vote, and time only where the others' votes are split.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::QuorumShared;
use super::member::Member;
use super::round::WaitsFor;
use crate::backend::batched::{BatchedAnswer, ReleaseCommand};
use crate::backend::command_error::CommandError;
use crate::backend::{Answer, Link, Node};
use crate::policy::commands::{
    Acquire, Acquired, AcquiredAll, Cancelled, Claim, GivenBack, Keep, Polled, Renewal, Renewed,
};
use crate::policy::quorum::clocks::pool_time;
use crate::policy::quorum::footprint::Footprint;
use crate::policy::quorum::nodes::{NodeId, NodeSet};
use crate::policy::quorum::tally::Verdict;
use crate::policy::server_check::Answers;
use crate::policy::writes::{Writes, Wrote};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::node_status::NodeStanding;
use crate::values::report::{Part, Scanned, Stored};
use crate::values::ttl::Ttl;

/// Begins the error of a lock that too few nodes voted for.
pub(super) const VOTES_OF: &str = "a lock needs the votes of";

#[derive(Debug)]
pub(super) struct QuorumLink {
    pub(super) shared: Arc<QuorumShared>,
    /// One for each node; `None`: it is away.
    pub(super) connections: Vec<Option<Arc<dyn Node>>>,
    /// The channel of each connection on which its node sends hints.
    hints: Vec<Option<Arc<str>>>,
}

impl QuorumLink {
    pub(super) fn new(shared: Arc<QuorumShared>, connections: Vec<Option<Arc<dyn Node>>>) -> Self {
        let hint = |node: &Option<Arc<dyn Node>>| node.as_ref()?.hint_address().cloned();
        Self {
            hints: connections.iter().map(hint).collect(),
            shared,
            connections,
        }
    }

    /// The nodes among these that are connected.
    pub(super) fn connected(
        &self,
        among: NodeSet,
    ) -> impl Iterator<Item = (NodeId, &Arc<dyn Node>, &Arc<Member>)> {
        let all = self.shared.members().zip(&self.connections);
        all.filter_map(move |((node, member), connection)| {
            let connection = connection.as_ref().filter(|_| among.contains(node))?;
            Some((node, connection, member))
        })
    }

    pub(super) fn everywhere(
        &self,
    ) -> impl Iterator<Item = (NodeId, &Arc<dyn Node>, &Arc<Member>)> {
        self.connected(self.shared.nodes.all())
    }

    /// The nodes that may vote now.
    pub(super) fn voting(&self, now: Moment) -> NodeSet {
        let jumps = self.shared.jumps();
        let votes = self.everywhere().filter(|(node, connection, _)| {
            connection.votes_from() <= now && jumps.rest(*node, now).is_zero()
        });
        votes.map(|(node, ..)| node).collect()
    }

    pub(super) fn too_few_vote(&self, now: Moment) -> CommandError {
        let standing = |node: NodeId, member: &Member| self.standing(node, member, now);
        self.shared.too_few(standing, VOTES_OF, false)
    }

    pub(super) fn standing(&self, node: NodeId, member: &Member, now: Moment) -> NodeStanding {
        let connection = self.connections.get(node.index()).and_then(Option::as_ref);
        self.shared.standing((node, member), connection, now)
    }

    /// Where a node sends hints to this pool's waiters, if it does.
    pub(super) fn hint_to(&self, node: NodeId) -> Option<&Arc<str>> {
        self.hints.get(node.index())?.as_ref()
    }

    /// How long the node in the middle takes to answer.
    pub(super) fn round_trip(&self) -> Duration {
        let mut trips: Vec<_> = self
            .everywhere()
            .map(|(.., member)| member.round_trip())
            .collect();
        trips.sort_unstable();
        trips.get(trips.len() / 2).copied().unwrap_or_default()
    }
}

pub(super) fn no_quorum_answered() -> CommandError {
    CommandError::TooFewNodes {
        why: Reason::new("too few nodes answered"),
        is_open: true,
    }
}

/// For commands that no request for several nodes leads to: `Offers` refuses it before.
fn not_offered<'a, T: Send + 'a>() -> Answer<'a, T> {
    let why = "not offered by several nodes";
    Box::pin(std::future::ready(Err(CommandError::Setup(Reason::new(
        why,
    )))))
}

impl Link for QuorumLink {
    /// The pool's own clock, which is turned into each node's where a bound is sent.
    fn server_time_at(&self, now: Moment) -> u64 {
        pool_time(now)
    }

    fn runtime(&self) -> Option<&Handle> {
        self.connections
            .iter()
            .flatten()
            .find_map(|it| it.runtime())
    }

    /// Nobody is granted a lock in turn.
    fn address(&self) -> Option<&Arc<str>> {
        None
    }

    fn acquire<'a>(
        &'a self,
        command: &'a Acquire,
        within: Duration,
    ) -> BatchedAnswer<'a, &'a Acquire, Acquired> {
        BatchedAnswer::Boxed(Box::pin(self.elect(command, within)))
    }

    fn acquire_all<'a>(&'a self, _: &'a [Acquire], _: Duration) -> Answer<'a, AcquiredAll> {
        not_offered()
    }

    /// Nobody queues at a node.
    fn poll<'a>(&'a self, _: &'a Claim, _: Duration) -> Answer<'a, Polled> {
        let time = pool_time(self.shared.clock.now());
        Box::pin(std::future::ready(Ok(Polled::Gone { time })))
    }

    fn release<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        within: Duration,
    ) -> BatchedAnswer<'a, ReleaseCommand<'a>, GivenBack> {
        BatchedAnswer::Boxed(Box::pin(async move {
            let bounds = (keep, 0);
            let taken_back = self
                .take_back(claim, bounds, within, WaitsFor::Quorum)
                .await;
            match taken_back.verdict {
                Verdict::Unknown => Err(no_quorum_answered()),
                verdict => Ok(GivenBack {
                    found: verdict == Verdict::Yes,
                    rest: taken_back.rest,
                    is_open: taken_back.is_open,
                }),
            }
        }))
    }

    /// Conclusive at all nodes, or found at a quorum, or an error.
    fn cancel<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled> {
        Box::pin(async move {
            let bounds = (keep, not_after);
            let taken_back = self.take_back(claim, bounds, within, WaitsFor::All).await;
            let is_freed = taken_back.verdict == Verdict::Yes;
            if taken_back.is_open && !is_freed {
                return Err(CommandError::Unclear(Reason::new(
                    "some nodes did not say that nothing is left there",
                )));
            }
            Ok(Cancelled {
                time: pool_time(self.shared.clock.now()),
                found: taken_back.found,
                conclusive: !taken_back.is_open,
                rest: taken_back.rest,
            })
        })
    }

    fn renew<'a>(&'a self, items: &'a [Renewal], within: Duration) -> Answer<'a, Vec<Renewed>> {
        Box::pin(self.renew_all(items, within))
    }

    /// Where a node does not answer, the entry stays a writer's, which counts as ours all the same.
    fn downgrade<'a>(&'a self, claim: &'a Claim, ttl: Ttl, within: Duration) -> Answer<'a, bool> {
        let now = self.shared.clock.now();
        let open = &self.shared.open;
        open.change(&claim.value, now, Footprint::reads);
        Box::pin(
            self.tally(move |node| {
                Box::pin(async move { node.downgrade(claim, ttl, within).await })
            }),
        )
    }

    fn holds<'a>(&'a self, claim: &'a Claim, within: Duration) -> Answer<'a, bool> {
        Box::pin(self.tally(move |node| Box::pin(async move { node.holds(claim, within).await })))
    }

    fn write<'a>(&'a self, _: &'a Claim, _: &'a Writes<'a>, _: Duration) -> Answer<'a, Wrote> {
        not_offered()
    }

    fn read<'a>(&'a self, key: &'a str, within: Duration) -> Answer<'a, Option<String>> {
        Box::pin(self.most(move |node| Box::pin(async move { node.read(key, within).await })))
    }

    /// The keys of all nodes, one after the other; the cursor's first digits say which, and how many
    /// have failed. Those are left out while the others are a quorum: a lock that is held is at one
    /// of them.
    fn scan<'a>(&'a self, prefix: &'a str, cursor: u64, within: Duration) -> Answer<'a, Scanned> {
        const NODE: u32 = 56;
        const FAILED: u32 = 60;
        const OF_NODE: u64 = (1 << NODE) - 1;
        Box::pin(async move {
            let failed = usize::try_from(cursor >> FAILED).unwrap_or(usize::MAX);
            let at = usize::try_from((cursor >> NODE) & 0xF).unwrap_or(usize::MAX);
            let connected = self.connections.iter().enumerate().skip(at);
            let mut connected = connected.filter_map(|(at, node)| Some((at, node.clone()?)));
            let Some((at, node)) = connected.next() else {
                return Ok(Scanned {
                    cursor: 0,
                    keys: Vec::new(),
                });
            };
            let number = |at: usize, failed: usize| {
                let digits = |number: usize| u64::try_from(number).unwrap_or(0);
                (digits(failed) << FAILED) | (digits(at) << NODE)
            };
            let next = connected.next().map(|(next, _)| next);
            let next = |failed| next.map_or(0, |next| number(next, failed));
            match node.scan(prefix, cursor & OF_NODE, within).await {
                Ok(mut scanned) => {
                    scanned.cursor = match scanned.cursor & OF_NODE {
                        0 => next(failed),
                        cursor => number(at, failed) | cursor,
                    };
                    Ok(scanned)
                }
                Err(error) => {
                    let failed = failed + 1;
                    let answer = self.everywhere().count().saturating_sub(failed);
                    if answer < self.shared.nodes.quorum() {
                        return Err(error);
                    }
                    Ok(Scanned {
                        cursor: next(failed),
                        keys: Vec::new(),
                    })
                }
            }
        })
    }

    fn inspect<'a>(
        &'a self,
        keys: &'a [&'a str],
        part: Part,
        within: Duration,
    ) -> Answer<'a, Vec<Stored>> {
        Box::pin(async move {
            let mut round = self.ask_everywhere(|node| {
                Box::pin(async move { node.inspect(keys, part, within).await })
            });
            let (mut all, mut failed) = (Vec::new(), None);
            while let Some((_, answer)) = round.next().await {
                match answer {
                    Ok(stored) => all.push(stored),
                    Err(error) => drop(failed.get_or_insert(error)),
                }
            }
            if all.len() < self.shared.nodes.quorum() {
                return Err(failed.unwrap_or_else(no_quorum_answered));
            }
            let mut all: Vec<_> = all.into_iter().map(Vec::into_iter).collect();
            let quorum = self.shared.nodes.quorum();
            let key = |_| {
                let of_key = all.iter_mut().filter_map(Iterator::next).collect();
                Stored::of_most(of_key, quorum)
            };
            Ok((0..keys.len()).filter_map(key).collect())
        })
    }

    fn check(&self, within: Duration) -> Answer<'_, Vec<Answers>> {
        Box::pin(async move {
            let check = |node: Arc<dyn Node>| -> Answer<'_, Vec<Answers>> {
                Box::pin(async move { node.check(within).await })
            };
            let mut round = self.ask_everywhere(check);
            let (mut all, mut failed) = (Vec::new(), None);
            while let Some((node, answer)) = round.next().await {
                let name = self.shared.member(node).map(|it| it.name().to_owned());
                match answer {
                    Ok(answers) => all.extend(answers.into_iter().map(|answers| Answers {
                        node: name.clone(),
                        ..answers
                    })),
                    Err(error) => drop(failed.get_or_insert(error)),
                }
            }
            all.sort_by(|one, other| one.node.cmp(&other.node));
            failed.filter(|_| all.is_empty()).map_or(Ok(all), Err)
        })
    }

    fn ping(&self, within: Duration) -> Answer<'_, ()> {
        Box::pin(async move {
            let pinged = self
                .tally(move |node| Box::pin(async move { node.ping(within).await.map(|()| true) }));
            pinged.await.map(|_| ())
        })
    }
}
