//! One round of renewals at all nodes. A node that does not have a lock, and may vote, is asked for its
//! vote (a *re-seed*), so that a lock which only a quorum granted outlives one of those nodes.
//!
//! `client::quorum::footprint` decides whom to ask. Invariant: what is asked for is known to
//! `OpenClaims` before it is sent, so a release that begins later takes it back.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::QuorumShared;
use super::link::QuorumLink;
use super::round::Round;
use crate::client::quorum::clocks::pool_time;
use crate::client::quorum::footprint::{Reseed, ServerProcess};
use crate::client::quorum::nodes::NodeId;
use crate::client::quorum::tally::{Tally, Verdict};
use crate::link::command_error::CommandError;
use crate::link::{Answer, Link, Node};
use crate::rules::ballots::{Ballot, Vote};
use crate::rules::commands::{Claim, Renewal, Renewed};
use crate::values::entry;

/// Renewals of some locks, each of which is decided by itself.
struct RenewalRound {
    shared: Arc<QuorumShared>,
    items: Arc<[Renewal]>,
    until: Instant,
    round: Round<'static, NodeTold>,
    tallies: Vec<(Tally, Option<Verdict>)>,
    answers: usize,
    failed: Option<CommandError>,
}

/// What a node said.
enum NodeTold {
    Renewed(AskedNode, Vec<Renewed>),
    /// To its vote for the item at this index.
    Voted(usize, ServerProcess, Result<Vote, CommandError>),
}

/// Over which connection a node was asked, and its time then, or an earlier one.
struct AskedNode {
    connection: Arc<dyn Node>,
    time: u64,
}

impl QuorumLink {
    /// Renews each lock at all nodes. A node that answers last is renewed too: a lock that only just
    /// has its quorum survives no failure.
    pub(super) async fn renew_all(
        &self,
        items: &[Renewal],
        within: Duration,
    ) -> Result<Vec<Renewed>, CommandError> {
        let (nodes, now) = (self.shared.nodes, self.shared.clock.now());
        let items: Arc<[Renewal]> = items.into();
        let round = self.ask_everywhere(|connection| {
            let (items, time) = (items.clone(), connection.server_time_at(now));
            Box::pin(async move {
                let link: Arc<dyn Link> = connection.clone();
                let answers = link.renew(&items, within).await?;
                Ok(NodeTold::Renewed(AskedNode { connection, time }, answers))
            })
        });
        let silent = self.silent(&round);
        let mut it = RenewalRound {
            shared: self.shared.clone(),
            until: Instant::now() + within,
            round,
            tallies: items.iter().map(|_| (Tally::new(nodes), None)).collect(),
            items,
            answers: 0,
            failed: None,
        };
        silent.for_each(|node| it.count_all(node, None));
        while !it.is_decided() && it.hear_one().await {}
        it.end()
    }
}

impl RenewalRound {
    fn is_decided(&self) -> bool {
        self.tallies.iter().all(|(_, verdict)| verdict.is_some())
    }

    /// Waits for one answer; `false`: none will come.
    async fn hear_one(&mut self) -> bool {
        let Some((node, told)) = self.round.next().await else {
            return false;
        };
        match told {
            Ok(NodeTold::Renewed(asked, outcomes)) => {
                self.answers += 1;
                for at in 0..self.items.len() {
                    self.renewed((node, &asked), at, outcomes.get(at));
                }
            }
            Ok(NodeTold::Voted(at, process, vote)) => self.voted((node, process), at, vote),
            Err(error) => {
                self.failed.get_or_insert(error);
                self.count_all(node, None);
            }
        }
        true
    }

    fn renewed(
        &mut self,
        (node, asked): (NodeId, &AskedNode),
        at: usize,
        outcome: Option<&Renewed>,
    ) {
        let Some(value) = self.items.get(at).map(|it| &it.claim.value) else {
            return;
        };
        match outcome {
            Some(Renewed::Yes) => {
                let (now, process) = (
                    self.shared.clock.now(),
                    ServerProcess::of(asked.connection.run_id()),
                );
                let open = &self.shared.open;
                open.change(value, now, |it| it.is_at(node, process));
                self.count(node, at, Some(true));
            }
            Some(Renewed::NotOurs) => match self.reseed((node, asked), at) {
                Some(vote) => self.round.push(node, vote),
                None => self.count(node, at, Some(false)),
            },
            Some(Renewed::Failed | Renewed::TooFew) | None => self.count(node, at, None),
        }
    }

    /// Asks for the vote of a node that does not have the lock, if it may have one.
    fn reseed(
        &self,
        (node, asked): (NodeId, &AskedNode),
        at: usize,
    ) -> Option<Answer<'static, NodeTold>> {
        let (shared, connection) = (self.shared.clone(), &asked.connection);
        let Renewal { claim, ttl } = self.items.get(at)?;
        let (now, member) = (shared.clock.now(), shared.member(node)?.clone());
        let within = self.until.saturating_duration_since(Instant::now());
        let may_vote =
            connection.votes_from() <= now && shared.hear_clock(node, &**connection).is_zero();
        if !may_vote || within.is_zero() {
            return None;
        }
        let until = pool_time(now.plus(within));
        let stamp = |bound| member.stamp(&**connection, bound, now);
        let process = ServerProcess::of(connection.run_id());
        let Reseed { epoch, reads } = shared.open.change(&claim.value, now, |it| {
            it.reseed((node, process), until, |earlier| {
                asked.time > stamp(earlier)
            })
        })??;
        let reader = entry::reader_form(&claim.value).filter(|_| reads);
        let ballot = Ballot {
            claim: Claim {
                key: claim.key.clone(),
                value: reader.map_or_else(|| claim.value.clone(), Into::into),
                queues: false,
                is_once: false,
            },
            lease: *ttl,
            not_after: stamp(until),
            proposal: epoch,
            hint_to: "".into(),
        };
        let connection = connection.clone();
        Some(Box::pin(async move {
            let vote = shared.vote_of((node, &member, &*connection), &ballot, within, now);
            Ok(NodeTold::Voted(at, process, vote.await))
        }))
    }

    fn voted(
        &mut self,
        (node, process): (NodeId, ServerProcess),
        at: usize,
        vote: Result<Vote, CommandError>,
    ) {
        let granted = vote.ok().map(|it| matches!(it, Vote::Granted { .. }));
        if let (Some(granted), Some(item)) = (granted, self.items.get(at)) {
            let (open, now) = (&self.shared.open, self.shared.clock.now());
            open.change(&item.claim.value, now, |it| {
                it.reseeded(node, process, granted);
            });
        }
        self.count(node, at, granted);
    }

    fn count_all(&mut self, node: NodeId, answer: Option<bool>) {
        for at in 0..self.items.len() {
            self.count(node, at, answer);
        }
    }

    fn count(&mut self, node: NodeId, at: usize, answer: Option<bool>) {
        if let Some((tally, verdict)) = self.tallies.get_mut(at) {
            *verdict = verdict.or(tally.count(node, answer));
        }
    }

    /// What became of each; hears the other answers in a task of its own, and asks for votes there.
    fn end(mut self) -> Result<Vec<Renewed>, CommandError> {
        let outcome = |verdict: &Option<Verdict>| match verdict {
            Some(Verdict::Yes) => Renewed::Yes,
            Some(Verdict::No) => Renewed::NotOurs,
            Some(Verdict::Unknown) | None => Renewed::TooFew,
        };
        let outcomes = self.tallies.iter().map(|(_, it)| outcome(it)).collect();
        let (is_answered, failed) = (
            self.answers >= self.shared.nodes.quorum(),
            self.failed.take(),
        );
        if !self.round.pending().is_empty()
            && let Ok(here) = Handle::try_current()
        {
            here.spawn(async move { while self.hear_one().await {} });
        }
        match failed.filter(|_| !is_answered) {
            Some(error) => Err(error),
            None => Ok(outcomes),
        }
    }
}
