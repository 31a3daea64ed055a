//! The commands of a node of a quorum over a connection. Those about exclusive locks go through a
//! batcher of their own; each one about a lock of a kind with many holders is sent by itself.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use redis::{Cmd, Value};
use tokio::time::Instant;

use super::RedisLink;
use super::batcher::Command;
use super::operations::Repetitions;
use crate::backend::command_error::CommandError;
use crate::backend::redis::epochs::LARGEST_EPOCH;
use crate::backend::redis::membership::Membership;
use crate::backend::redis::names::{LockKeys, Names};
use crate::backend::redis::reply::{self, OfNode};
use crate::backend::redis::scripts::{self, CallBy};
use crate::backend::{Answer, Node};
use crate::policy::clock_watch::ClockAnswer;
use crate::policy::commands::{Cancelled, Claim, Keep};
use crate::policy::quorum::commands::{Adopted, Ballot, Vote};
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

    fn vote<'a>(&'a self, ballot: &'a Ballot, within: Duration) -> Answer<'a, Vote> {
        Box::pin(async move {
            exact(ballot.proposal)?;
            if self.connection.node_may_have_forgotten() {
                self.connection.tell_node(within).await;
            }
            self.connection.remind_node();
            let (claim, proposal) = (&ballot.claim, ballot.proposed());
            let answer = if claim.kind().is_shared() {
                let lease = ballot.lease.as_millis();
                let terms = [lease, ballot.not_after, proposal].map(|it| it.to_string());
                let [lease, not_after, proposal] = terms;
                let words = vec![lease, not_after, proposal, ballot.channel().to_owned()];
                self.ask_shared("v", claim, words, within).await?
            } else {
                self.ask_node(Command::Vote(ballot), within).await?
            };
            answer.vote(proposal)
        })
    }

    fn adopt<'a>(&'a self, claim: &'a Claim, epoch: u64, within: Duration) -> Answer<'a, Adopted> {
        Box::pin(async move {
            exact(epoch)?;
            if claim.kind().is_shared() {
                let words = vec![epoch.to_string()];
                return self.ask_shared("a", claim, words, within).await?.adopted();
            }
            let command = Command::Adopt { claim, epoch };
            self.ask_node(command, within).await?.adopted()
        })
    }

    fn take_back<'a>(
        &'a self,
        claim: &'a Claim,
        keep: Keep,
        not_after: u64,
        within: Duration,
    ) -> Answer<'a, Cancelled> {
        Box::pin(async move {
            let answer = if claim.kind().is_shared() {
                let words = vec![keep.to_string()];
                self.ask_shared("b", claim, words, within).await?
            } else {
                let command = Command::TakeBack { claim, keep };
                self.ask_node(command, within).await?
            };
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
        let (reply, sent) = match self.of_node.run(command, within, until).await {
            Err(error) => return Err(Box::pin(self.blamed(command.lock(), error, until)).await),
            Ok(reply) => reply,
        };
        let answer = reply.of_node()?;
        if !answer.is_of_a_batch {
            self.connection.heard_time(answer.time, sent); // a batch updates the clock once
        }
        Ok(answer)
    }

    /// A writer that becomes a reader at a node.
    pub(super) async fn downgrade_at_node(
        &self,
        claim: &Claim,
        ttl: Ttl,
        within: Duration,
    ) -> Result<bool, CommandError> {
        let words = vec![ttl.as_millis().to_string()];
        let answer = self.ask_shared("d", claim, words, within).await?;
        answer.downgraded()
    }

    /// Asks about an entry of a kind with many holders. Once polled it is sent, even if the future
    /// is dropped, and before what is polled later.
    async fn ask_shared(
        &self,
        operation: &'static str,
        claim: &Claim,
        words: Vec<String>,
        within: Duration,
    ) -> Result<OfNode, CommandError> {
        let (asks_for, until) = (claim, Instant::now() + within);
        let (connection, claim) = (self.connection.clone(), claim.clone());
        let mut asked = Box::pin(async move {
            let mut rounds = Repetitions::new(within);
            loop {
                let within = rounds.next()?;
                let call = |by| shared(by, &connection.names, operation, &claim, &words);
                let (reply, sent) = connection.run(within, call).await?;
                let answer = reply::of_node(reply, 1)?.pop();
                let answer =
                    answer.unwrap_or_else(|| Err(reply::unexpected("node", &Value::Nil)))?;
                connection.heard_time(answer.time, sent);
                if !answer.says_again() {
                    return Ok(answer);
                }
            }
        });
        // The first poll hands it to the connection's task, in order.
        let answer = match poll_fn(|cx| Poll::Ready(asked.as_mut().poll(cx))).await {
            Poll::Ready(answer) => answer,
            Poll::Pending => self
                .connection
                .runtime
                .spawn(asked)
                .await
                .unwrap_or_else(|_| {
                    let why = "the runtime of the connection is shutting down";
                    Err(CommandError::Unclear(Reason::new(why)))
                }),
        };
        match answer {
            Err(error) => Err(Box::pin(self.blamed(&asks_for.key, error, until)).await),
            answer => answer,
        }
    }
}

fn shared(by: CallBy, names: &Names, operation: &str, claim: &Claim, words: &[String]) -> Cmd {
    let LockKeys { counter, hints, .. } = names.of(&claim.key);
    let room = names.room(&claim.key) + claim.value.len() + 20 * words.len();
    let mut command = scripts::NODE_SHARED.called(by, 6 + words.len(), room);
    command.arg(4).arg(&*claim.key).arg(&*counter);
    command.arg(hints.text()).arg(names.somebody_wants());
    command.arg(operation).arg(&*claim.value).arg(words);
    command
}
