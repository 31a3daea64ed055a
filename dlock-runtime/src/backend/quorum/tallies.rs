//! Questions that each node answers by itself, and what the answers say together.
//!
//! Invariant: a node that is away counts as one that did not answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::link::{QuorumLink, no_quorum_answered};
use super::round::Round;
use crate::backend::command_error::CommandError;
use crate::backend::{Answer, Node};
use crate::policy::commands::{Renewal, Renewed};
use crate::policy::quorum::nodes::NodeId;
use crate::policy::quorum::tally::{Tally, Verdict};

impl QuorumLink {
    /// Asks all nodes that are connected.
    pub(super) fn ask_everywhere<'a, T>(
        &self,
        ask: impl Fn(Arc<dyn Node>) -> Answer<'a, T>,
    ) -> Round<'a, T> {
        let mut round = Round::default();
        for (node, connection, _) in self.everywhere() {
            round.push(node, ask(connection.clone()));
        }
        round
    }

    /// The nodes that were not asked in this round.
    pub(super) fn silent<T>(&self, round: &Round<'_, T>) -> impl Iterator<Item = NodeId> + use<T> {
        let asked = round.pending();
        self.shared
            .nodes
            .ids()
            .filter(move |node| !asked.contains(*node))
    }

    /// Asks all nodes yes or no, until it is decided.
    pub(super) async fn tally<'a>(
        &'a self,
        ask: impl Fn(Arc<dyn Node>) -> Answer<'a, bool>,
    ) -> Result<bool, CommandError> {
        let mut tally = Tally::new(self.shared.nodes);
        let mut round = self.ask_everywhere(ask);
        for node in self.silent(&round) {
            tally.count(node, None);
        }
        let mut failed = None;
        while let Some((node, answer)) = round.next().await {
            let answer = answer.map_err(|error| failed.get_or_insert(error).clone());
            match tally.count(node, answer.ok()) {
                Some(Verdict::Yes) => return Ok(true),
                Some(Verdict::No) => return Ok(false),
                Some(Verdict::Unknown) => break,
                None => {}
            }
        }
        Err(failed.unwrap_or_else(no_quorum_answered))
    }

    /// Renews each lock at all nodes; each is decided by itself. A node that answers last is renewed
    /// too: a lock that only just has its quorum survives no failure.
    pub(super) async fn renew_all(
        &self,
        items: &[Renewal],
        within: Duration,
    ) -> Result<Vec<Renewed>, CommandError> {
        let nodes = self.shared.nodes;
        let shared: Arc<[Renewal]> = items.into();
        let mut round = self.ask_everywhere(|node| {
            let items = shared.clone();
            Box::pin(async move { node.renew(&items, within).await })
        });
        let mut tallies: Vec<_> = items.iter().map(|_| (Tally::new(nodes), None)).collect();
        let mut count = |node, answers: Option<Vec<Renewed>>| {
            for (at, (tally, verdict)) in tallies.iter_mut().enumerate() {
                let answer = answers.as_ref().and_then(|it| it.get(at));
                let answer = match answer {
                    Some(Renewed::Yes) => Some(true),
                    Some(Renewed::NotOurs) => Some(false),
                    Some(Renewed::Failed) | None => None,
                };
                *verdict = verdict.or(tally.count(node, answer));
            }
            tallies.iter().all(|(_, verdict)| verdict.is_some())
        };
        for node in self.silent(&round) {
            count(node, None);
        }
        let mut failed = None;
        let mut answers = 0;
        while let Some((node, answer)) = round.next().await {
            answers += usize::from(answer.is_ok());
            let answer = answer.map_err(|error| failed.get_or_insert(error).clone());
            if count(node, answer.ok()) {
                break;
            }
        }
        round.finish_behind();
        if answers < nodes.quorum()
            && let Some(error) = failed
        {
            return Err(error);
        }
        let outcome = |(_, verdict): (Tally, Option<Verdict>)| match verdict {
            Some(Verdict::Yes) => Renewed::Yes,
            Some(Verdict::No) => Renewed::NotOurs,
            Some(Verdict::Unknown) | None => Renewed::Failed,
        };
        Ok(tallies.into_iter().map(outcome).collect())
    }

    /// What most of the nodes that answer say.
    pub(super) async fn most<'a, T: Ord>(
        &'a self,
        ask: impl Fn(Arc<dyn Node>) -> Answer<'a, T>,
    ) -> Result<T, CommandError> {
        let mut round = self.ask_everywhere(ask);
        let (mut said, mut failed) = (BTreeMap::<T, usize>::new(), None);
        while let Some((_, answer)) = round.next().await {
            match answer {
                Ok(answer) => *said.entry(answer).or_default() += 1,
                Err(error) => drop(failed.get_or_insert(error)),
            }
            if said
                .values()
                .any(|nodes| *nodes >= self.shared.nodes.quorum())
            {
                break;
            }
        }
        let answers: usize = said.values().sum();
        if answers < self.shared.nodes.quorum() {
            return Err(failed.unwrap_or_else(no_quorum_answered));
        }
        let most = said.into_iter().max_by_key(|(_, nodes)| *nodes);
        most.map(|(said, _)| said).ok_or_else(no_quorum_answered)
    }
}
