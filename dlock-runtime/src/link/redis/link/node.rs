//! The commands of a node of a quorum over a connection. They go through a batcher of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RedisLink;
use super::batcher::Command;
use super::operations::Repetitions;
use crate::client::clock_watch::ClockAnswer;
use crate::link::Node;
use crate::link::command_error::CommandError;
use crate::link::redis::epochs::LARGEST_EPOCH;
use crate::link::redis::membership::Membership;
use crate::link::redis::reply::OfNode;
use crate::rules::ballots::{Adopted, Ballot, Vote};
use crate::rules::commands::{Cancelled, Claim, Keep};
use crate::values::error::Reason;
use crate::values::moment::Moment;
use crate::values::ttl::Ttl;

impl Node for RedisLink {
    fn run_id(&self) -> &str {
        self.connection.run_id()
    }

    fn votes_from(&self) -> Moment {
        let node = self.connection.node.as_ref();
        node.map_or(Moment::NEVER, |it| it.votes_from)
    }

    fn clock_answer(&self) -> Option<ClockAnswer> {
        self.connection.node.as_ref().map(Membership::latest)
    }

    fn remind(&self) {
        self.connection.remind_node();
    }

    fn hint_address(&self) -> Option<&Arc<str>> {
        self.hints.as_ref()
    }
}

/// A script's numbers are doubles.
fn exact(epoch: u64) -> Result<(), CommandError> {
    if epoch > LARGEST_EPOCH {
        let why = "no node can hold an epoch of 2^53 or more";
        return Err(CommandError::Unsent(Reason::new(why)));
    }
    Ok(())
}

impl RedisLink {
    pub(crate) async fn vote(
        &self,
        ballot: &Ballot,
        within: Duration,
    ) -> Result<Vote, CommandError> {
        exact(ballot.proposal)?;
        if self.connection.node_may_have_forgotten() {
            self.connection.tell_node(within).await;
        }
        self.connection.remind_node();
        let answer = self.ask_node(Command::Vote(ballot), within).await?;
        answer.vote(ballot.proposed())
    }

    pub(crate) async fn adopt(
        &self,
        claim: &Claim,
        epoch: u64,
        within: Duration,
    ) -> Result<Adopted, CommandError> {
        exact(epoch)?;
        let command = Command::Adopt { claim, epoch };
        self.ask_node(command, within).await?.adopted()
    }

    pub(crate) async fn take_back(
        &self,
        claim: &Claim,
        keep: Keep,
        not_after: u64,
        within: Duration,
    ) -> Result<Cancelled, CommandError> {
        let command = Command::TakeBack { claim, keep };
        self.ask_node(command, within).await?.taken_back(not_after)
    }

    /// Asks through the batcher; again while there are lapsed entries to remove.
    async fn ask_node(
        &self,
        command: Command<'_>,
        within: Duration,
    ) -> Result<OfNode, CommandError> {
        let (until, mut rounds) = (Instant::now() + within, Repetitions::new(within));
        loop {
            let asked = self.of_node.run(command, rounds.next()?, until);
            let (reply, sent) = match asked.await {
                Err(error) => return Err(Box::pin(self.blamed(command.lock(), error, until)).await),
                Ok(reply) => reply,
            };
            let answer = reply.of_node()?;
            if !answer.is_of_a_batch {
                self.connection.heard_time(answer.time, sent); // a batch updates the clock once
            }
            if !answer.says_again() {
                return Ok(answer);
            }
        }
    }

    /// A writer that becomes a reader at a node.
    pub(super) async fn downgrade_at_node(
        &self,
        claim: &Claim,
        ttl: Ttl,
        within: Duration,
    ) -> Result<bool, CommandError> {
        let command = Command::StepDown { claim, ttl };
        self.ask_node(command, within).await?.downgraded()
    }
}
