//! The commands of a node of a quorum over a connection. They go through a batcher of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::RedisLink;
use super::batcher::Command;
use crate::backend::command_error::CommandError;
use crate::backend::redis::epochs::LARGEST_EPOCH;
use crate::backend::redis::node::Membership;
use crate::backend::redis::reply::OfNode;
use crate::backend::{Answer, Node};
use crate::policy::clock_watch::ClockAnswer;
use crate::policy::commands::{Cancelled, Claim};
use crate::policy::quorum::commands::{Adopted, Ballot, Vote};
use crate::values::error::Reason;
use crate::values::moment::Moment;

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

    fn hint_address(&self) -> Option<&Arc<str>> {
        self.hints.as_ref()
    }

    fn vote<'a>(&'a self, ballot: &'a Ballot, within: Duration) -> Answer<'a, Vote> {
        Box::pin(async move {
            exact(ballot.proposal)?;
            self.connection.remind_node();
            let command = Command::Vote(ballot);
            self.ask_node(command, within).await?.vote()
        })
    }

    fn adopt<'a>(&'a self, claim: &'a Claim, epoch: u64, within: Duration) -> Answer<'a, Adopted> {
        Box::pin(async move {
            exact(epoch)?;
            let command = Command::Adopt { claim, epoch };
            self.ask_node(command, within).await?.adopted()
        })
    }

    fn take_back<'a>(
        &'a self,
        claim: &'a Claim,
        keep_until: u64,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled> {
        Box::pin(async move {
            let command = Command::TakeBack { claim, keep_until };
            let answer = self.ask_node(command, within).await?;
            answer.taken_back(not_after)
        })
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
    async fn ask_node(
        &self,
        command: Command<'_>,
        within: Duration,
    ) -> Result<OfNode, CommandError> {
        let until = Instant::now() + within;
        let (reply, sent) = self.of_node.run(command, within, until).await?;
        let answer = reply.of_node()?;
        if !answer.is_of_a_batch {
            self.connection.heard_time(answer.time, sent); // a batch updates the clock once
        }
        Ok(answer)
    }
}
