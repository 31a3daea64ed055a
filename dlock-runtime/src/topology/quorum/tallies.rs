//! Questions that each node answers by itself, and what the answers say together.
//!
//! Invariant: a node that is away counts as one that did not answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::link::{QuorumLink, no_quorum_answered};
use super::round::Round;
use crate::client::quorum::nodes::NodeId;
use crate::client::quorum::tally::{Tally, Verdict};
use crate::link::command::ReadReply;
use crate::link::command_error::CommandError;
use crate::link::{Answer, Link, LinkCommand, Node};

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

    /// Asks all nodes that are connected the same.
    pub(super) fn ask_all<'a, T: ReadReply + 'a>(
        &self,
        command: LinkCommand<'a>,
        within: Duration,
    ) -> Round<'a, T> {
        self.ask_everywhere(|node| {
            let link: Arc<dyn Link> = node;
            Box::pin(async move { link.ask(command, within).await })
        })
    }

    /// All answers, and the first failure.
    pub(super) async fn all_answers<'a, T: ReadReply + 'a>(
        &self,
        command: LinkCommand<'a>,
        within: Duration,
    ) -> (Vec<(NodeId, T)>, Option<CommandError>) {
        let mut round = self.ask_all(command, within);
        let (mut all, mut failed) = (Vec::new(), None);
        while let Some((node, answer)) = round.next().await {
            match answer {
                Ok(answer) => all.push((node, answer)),
                Err(error) => drop(failed.get_or_insert(error)),
            }
        }
        (all, failed)
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
    pub(super) async fn tally(
        &self,
        command: LinkCommand<'_>,
        within: Duration,
    ) -> Result<bool, CommandError> {
        self.decided(self.ask_all(command, within)).await
    }

    /// What the nodes decide.
    pub(super) async fn decided(&self, mut round: Round<'_, bool>) -> Result<bool, CommandError> {
        let mut tally = Tally::new(self.shared.nodes);
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

    /// What most of the nodes that answer say.
    pub(super) async fn most<'a, T: ReadReply + Ord + 'a>(
        &self,
        command: LinkCommand<'a>,
        within: Duration,
    ) -> Result<T, CommandError> {
        let mut round = self.ask_all(command, within);
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
