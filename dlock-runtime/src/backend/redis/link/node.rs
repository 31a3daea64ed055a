//! The commands of a node of a quorum over a connection, and how they are written for `node.lua`.

use std::sync::Arc;
use std::time::Duration;

use redis::Cmd;
use tokio::task::unconstrained;

use super::RedisLink;
use crate::backend::command_error::CommandError;
use crate::backend::redis::calls;
use crate::backend::redis::epochs::LARGEST_EPOCH;
use crate::backend::redis::names::{LockKeys, Names};
use crate::backend::redis::reply::{self, OfNode};
use crate::backend::redis::scripts::{self, By};
use crate::backend::{Answer, Node};
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

    fn hint_address(&self) -> Option<&Arc<str>> {
        self.hints.as_ref()
    }

    fn vote<'a>(&'a self, ballot: &'a Ballot, within: Duration) -> Answer<'a, Vote> {
        Box::pin(async move {
            exact(ballot.proposal)?;
            self.connection.remind_node();
            let command = NodeCommand::Vote(ballot);
            self.ask_node(command, within).await?.vote()
        })
    }

    fn adopt<'a>(&'a self, claim: &'a Claim, epoch: u64, within: Duration) -> Answer<'a, Adopted> {
        Box::pin(async move {
            exact(epoch)?;
            let command = NodeCommand::Adopt { claim, epoch };
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
            let command = NodeCommand::TakeBack { claim, keep_until };
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
        command: NodeCommand<'_>,
        within: Duration,
    ) -> Result<OfNode, CommandError> {
        let connection = &self.connection;
        let call = |by| written(by, &connection.names, [command].into_iter());
        // Unconstrained: tokio's cooperative budget must not keep the first poll from sending it.
        let (reply, sent) = unconstrained(connection.run(within, call)).await?;
        let mut items = reply::of_node(reply, 1)?;
        let answer = items
            .pop()
            .unwrap_or_else(|| Err(reply::unexpected("node", &redis::Value::Nil)));
        let answer = answer.map_err(|error| connection.noted(error))?;
        connection.heard_time(answer.time, sent);
        Ok(answer)
    }
}

#[cfg(test)]
impl RedisLink {
    /// Sends these commands at once, as one script, in this order.
    pub(in crate::backend::redis) async fn ask_node_together(
        &self,
        commands: &[NodeCommand<'_>],
    ) -> Vec<Result<OfNode, CommandError>> {
        let connection = &self.connection;
        let call = |by| written(by, &connection.names, commands.iter().copied());
        let (reply, _) = connection
            .run(connection.command_timeout, call)
            .await
            .expect("a reply");
        reply::of_node(reply, commands.len()).expect("an answer for each")
    }
}

/// One command of a node.
#[derive(Clone, Copy)]
pub(in crate::backend::redis) enum NodeCommand<'a> {
    Vote(&'a Ballot),
    Adopt { claim: &'a Claim, epoch: u64 },
    TakeBack { claim: &'a Claim, keep_until: u64 },
}

impl<'a> NodeCommand<'a> {
    fn claim(self) -> &'a Claim {
        match self {
            NodeCommand::Vote(ballot) => &ballot.claim,
            NodeCommand::Adopt { claim, .. } | NodeCommand::TakeBack { claim, .. } => claim,
        }
    }

    fn terms(self) -> Terms<'a> {
        match self {
            NodeCommand::Vote(ballot) => Terms::Vote {
                lease: ballot.lease.as_millis(),
                not_after: ballot.not_after,
                channel: channel(&ballot.hint_to),
            },
            NodeCommand::Adopt { .. } => Terms::Adopt,
            NodeCommand::TakeBack { keep_until, .. } => Terms::TakeBack { keep_until },
        }
    }

    /// The number that only this item has.
    fn epoch(self) -> Option<u64> {
        match self {
            NodeCommand::Vote(ballot) => Some(ballot.proposal.max(1)), // no epoch is 0
            NodeCommand::Adopt { epoch, .. } => Some(epoch),
            NodeCommand::TakeBack { .. } => None,
        }
    }
}

/// An address is the server's run id and the channel there.
fn channel(address: &Arc<str>) -> &str {
    address
        .split_once(';')
        .map_or(address, |(_, channel)| channel)
}

/// What neighbours in a batch may have in common.
#[derive(Clone, Copy, PartialEq)]
enum Terms<'a> {
    Vote {
        lease: u64,
        not_after: u64,
        channel: &'a str,
    },
    Adopt,
    TakeBack {
        keep_until: u64,
    },
}

impl Terms<'_> {
    fn write(&self, items: usize, command: &mut Cmd) {
        match self {
            Terms::Vote {
                lease,
                not_after,
                channel,
            } => {
                let command = command.arg("v").arg(items).arg(lease).arg(not_after);
                command.arg(*channel)
            }
            Terms::Adopt => command.arg("a").arg(items),
            Terms::TakeBack { keep_until } => command.arg("b").arg(items).arg(keep_until),
        };
    }
}

/// Bytes for the parameters of a typical batch.
const ROOM_FOR_TERMS: usize = 192;

/// All items in one command, in this order.
pub(super) fn written<'a>(
    by: By,
    names: &Names,
    mut items: impl ExactSizeIterator<Item = NodeCommand<'a>> + Clone,
) -> Cmd {
    let bytes = |item: NodeCommand<'_>| names.room(&item.claim().key) + item.claim().value.len();
    let room: usize = items.clone().map(bytes).sum();
    let words = 1 + 5 * items.len() + 10;
    let mut command = scripts::NODE.called(by, words, room + ROOM_FOR_TERMS);
    command.arg(3 * items.len());
    let mut name = String::new();
    for item in items.clone() {
        let lock = &*item.claim().key;
        let LockKeys { counter, hints, .. } = names.of(lock);
        command.arg(lock).arg(&*counter);
        command.arg(hints.text_in(&mut name));
    }
    for (terms, number) in calls::runs(items.clone().map(NodeCommand::terms)) {
        terms.write(number, &mut command);
        for item in items.by_ref().take(number) {
            command.arg(&*item.claim().value);
            if let Some(epoch) = item.epoch() {
                command.arg(epoch);
            }
        }
    }
    command
}
