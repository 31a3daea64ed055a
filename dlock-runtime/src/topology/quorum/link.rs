//! The protocol's commands over a connection to each node: a command goes to all of them at once,
//! and its answer is there as soon as a quorum has decided.
//!
//! Invariants: a command about a claim goes to every node where something of it may be left; a node
//! that hangs costs its vote, and time only where the others' votes are split.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::QuorumShared;
use super::member::Member;
use super::round::WaitsFor;
use crate::client::quorum::clocks::pool_time;
use crate::client::quorum::footprint::Footprint;
use crate::client::quorum::nodes::{NodeId, NodeSet};
use crate::client::quorum::tally::Verdict;
use crate::extras::server_check::Answers;
use crate::link::batched::{BatchedAnswer, ReleaseCommand};
use crate::link::command_error::CommandError;
use crate::link::{Answer, Link, LinkCommand, LinkReply, Node, not_offered, replied};
use crate::rules::commands::{Acquire, Acquired, Cancelled, Claim, GivenBack, Keep, Polled};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::node_status::NodeStanding;
use crate::values::report::{Notice, Part, Scanned, Sought, Stored};

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
                Verdict::Unknown => {
                    let refused = self.refusal(&taken_back.failed, |_| true);
                    Err(refused.unwrap_or_else(no_quorum_answered))
                }
                verdict => Ok(GivenBack {
                    found: verdict == Verdict::Yes,
                    rest: taken_back.rest,
                    is_open: taken_back.is_open,
                    is_recorded: false,
                }),
            }
        }))
    }

    fn call<'a>(&'a self, command: LinkCommand<'a>, within: Duration) -> Answer<'a, LinkReply> {
        match command {
            LinkCommand::AcquireAll(_)
            | LinkCommand::Write(..)
            | LinkCommand::NoteRun { .. }
            | LinkCommand::LastRun(_)
            | LinkCommand::ClearRecord(_)
            | LinkCommand::Vote(_)
            | LinkCommand::Adopt { .. } => not_offered("not offered by several nodes"),
            // Nobody queues at a node.
            LinkCommand::Poll(_) => replied(ready(Ok(Polled::Gone {
                time: pool_time(self.shared.clock.now()),
            }))),
            LinkCommand::Heartbeat(_) => replied(ready(Ok(None::<Polled>))),
            LinkCommand::Cancel {
                claim,
                keep,
                not_after,
            } => replied(self.cancel(claim, (keep, not_after), within)),
            LinkCommand::Renew(items) => replied(self.renew_all(items, within)),
            LinkCommand::Downgrade { claim, .. } => {
                // Where a node does not answer, the entry stays a writer's, which counts as ours all
                // the same.
                let now = self.shared.clock.now();
                (self.shared.open).change(&claim.value, now, Footprint::reads);
                replied(self.tally(command, within))
            }
            LinkCommand::Holds(_) => replied(self.tally(command, within)),
            LinkCommand::Read(_) => replied(self.most::<Option<String>>(command, within)),
            LinkCommand::Scan {
                sought,
                prefix,
                cursor,
            } => replied(self.scan(sought, prefix, cursor, within)),
            LinkCommand::Inspect { keys, part } => replied(self.inspect(keys, part, within)),
            LinkCommand::TellEvicted(_) => replied(self.tell_evicted(command, within)),
            LinkCommand::Ping => replied(self.ping(within)),
            LinkCommand::Check => replied(self.check(within)),
        }
    }
}

impl QuorumLink {
    /// Conclusive at all nodes, or found at a quorum, or an error.
    async fn cancel(
        &self,
        claim: &Claim,
        bounds: (Keep, u64),
        within: Duration,
    ) -> Result<Cancelled, CommandError> {
        let taken_back = self.take_back(claim, bounds, within, WaitsFor::All).await;
        let is_freed = taken_back.verdict == Verdict::Yes;
        if taken_back.is_open && !is_freed {
            return Err(CommandError::Unclear(Reason::new(
                "some nodes did not confirm that nothing is left there",
            )));
        }
        Ok(Cancelled {
            time: pool_time(self.shared.clock.now()),
            found: taken_back.found,
            conclusive: !taken_back.is_open,
            rest: taken_back.rest,
            is_recorded: false,
        })
    }

    /// The keys of all nodes, one after the other; the cursor says how many have failed, which one is
    /// asked, and that one's cursor. Nodes that failed are left out while the others are a quorum: a lock
    /// that is held is at one of them.
    async fn scan(
        &self,
        sought: Sought,
        prefix: &str,
        cursor: &str,
        within: Duration,
    ) -> Result<Scanned, CommandError> {
        let mut parts = cursor.splitn(3, ':');
        let mut number = || parts.next().and_then(|it| it.parse().ok()).unwrap_or(0);
        let (failed, at): (usize, usize) = (number(), number());
        let of_node = parts.next().unwrap_or_default();
        let connected = self.connections.iter().enumerate().skip(at);
        let mut connected = connected.filter_map(|(at, node)| Some((at, node.clone()?)));
        let Some((at, node)) = connected.next() else {
            return Ok(Scanned {
                cursor: String::new(),
                keys: Vec::new(),
            });
        };
        let next = connected.next().map(|(next, _)| next);
        let next = |failed| next.map_or_else(String::new, |next| format!("{failed}:{next}:"));
        let node: Arc<dyn Link> = node;
        match node.scan(sought, prefix, of_node, within).await {
            Ok(mut scanned) => {
                scanned.cursor = match &*scanned.cursor {
                    "" => next(failed),
                    of_node => format!("{failed}:{at}:{of_node}"),
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
    }

    async fn inspect(
        &self,
        keys: &[&str],
        part: Part,
        within: Duration,
    ) -> Result<Vec<Stored>, CommandError> {
        let command = LinkCommand::Inspect { keys, part };
        let (all, failed) = self.all_answers::<Vec<Stored>>(command, within).await;
        let quorum = self.shared.nodes.quorum();
        if all.len() < quorum {
            return Err(failed.unwrap_or_else(no_quorum_answered));
        }
        let stored = all.into_iter().map(|(_, stored)| stored.into_iter());
        let mut all: Vec<_> = stored.collect();
        let key = |_| {
            let of_key = all.iter_mut().filter_map(Iterator::next).collect();
            Stored::of_most(of_key, quorum)
        };
        Ok((0..keys.len()).filter_map(key).collect())
    }

    async fn check(&self, within: Duration) -> Result<Vec<Answers>, CommandError> {
        let (all, failed) = self
            .all_answers::<Vec<Answers>>(LinkCommand::Check, within)
            .await;
        let named = all.into_iter().flat_map(|(node, answers)| {
            let name = self.shared.member(node).map(|it| it.name().to_owned());
            let named = move |answers| Answers {
                node: name.clone(),
                ..answers
            };
            answers.into_iter().map(named)
        });
        let mut named: Vec<_> = named.collect();
        named.sort_by(|one, other| one.node.cmp(&other.node));
        failed.filter(|_| named.is_empty()).map_or(Ok(named), Err)
    }

    /// Each node publishes to the holder's connections there.
    async fn tell_evicted(
        &self,
        command: LinkCommand<'_>,
        within: Duration,
    ) -> Result<Notice, CommandError> {
        let round = self.ask_everywhere(|node| {
            let link: Arc<dyn Link> = node;
            Box::pin(async move {
                let told = link.ask::<Notice>(command, within).await;
                told.map(|it| it == Notice::Sent)
            })
        });
        let is_sent = self.decided(round).await?;
        Ok(if is_sent {
            Notice::Sent
        } else {
            Notice::NoAddress
        })
    }

    async fn ping(&self, within: Duration) -> Result<(), CommandError> {
        let round = self.ask_everywhere(|node| {
            let link: Arc<dyn Link> = node;
            Box::pin(async move { link.ping(within).await.map(|()| true) })
        });
        self.decided(round).await.map(|_| ())
    }
}
