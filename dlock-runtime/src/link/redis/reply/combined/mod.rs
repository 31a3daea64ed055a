//! Reads the reply to a batch, item by item. One unreadable item fails only that item; a reply of
//! another shape fails them all. Never in this folder: a repeat of the command.

use std::ops::Range;
use std::vec;

use redis::Value;

use super::node::OfNode;
use super::{Done, acquired, given_back, number, says_again, text, unexpected};
use crate::link::command_error::CommandError;
use crate::link::redis::errors;
use crate::rules::commands::{Acquired, GivenBack, Polled};

/// Less is no epoch, but a release's reply.
const LEAST_EPOCH: u64 = 2;

/// Reads the reply of `combined`: the time, and for each item what its own script would reply, or
/// its error. A granted lock is its epoch alone, which can't be confused with a release's reply:
/// that is at most 1. A batch of common cases has only the first epoch; since it has two items or
/// more, its reply is shorter than any other.
pub(crate) fn combined(
    reply: Value,
    releases: usize,
    asked: usize,
) -> Result<Replies, CommandError> {
    let error = |item: &Value| match item {
        Value::Array(words) if words.first() == Some(&Value::Int(9)) => text(words.get(1)?),
        _ => None,
    };
    match reply {
        Value::Array(items) if items.len() == 2 && asked > 1 => {
            let read = |at| items.get(at).and_then(number);
            let all = (read(0).zip(read(1)))
                .and_then(|(time, first)| all_done(time, first, releases, asked));
            all.ok_or_else(|| unexpected("combined", &Value::Array(items)))
        }
        Value::Array(items) if items.len() == asked + 1 => {
            let mut items = items.into_iter();
            let time = items.next().as_ref().and_then(number).unwrap_or(0);
            let one = |item| match (number(&item), error(&item)) {
                (Some(epoch @ LEAST_EPOCH..), _) => Ok(ItemReply::Granted { time, epoch }),
                (_, Some(said)) => Err(errors::error_of_item(&said)),
                _ => Ok(ItemReply::Other(item)),
            };
            Ok(Replies::each(items.map(one)))
        }
        other => Err(unexpected("combined", &other)),
    }
}

/// Each release found its lock, and each acquire was granted with the next epoch.
fn all_done(time: u64, first: u64, releases: usize, asked: usize) -> Option<Replies> {
    let acquires = u64::try_from(asked.checked_sub(releases)?).ok()?;
    let last = first.checked_add(acquires)?;
    if acquires > 0 && first < LEAST_EPOCH {
        return None;
    }
    Some(Replies::AllDone {
        releases,
        time,
        epochs: first..last,
    })
}

/// The replies to the items of a batch, in order.
#[derive(Debug)]
pub(crate) enum Replies {
    /// So many releases found their locks, and then each acquire was granted. Made one by one when
    /// they are read: a batch is large.
    AllDone {
        releases: usize,
        time: u64,
        epochs: Range<u64>,
    },
    Each(vec::IntoIter<Result<ItemReply, CommandError>>),
}

impl Replies {
    pub(crate) fn each(all: impl Iterator<Item = Result<ItemReply, CommandError>>) -> Self {
        Self::Each(all.collect::<Vec<_>>().into_iter())
    }

    /// The server's time, if a lock was granted or a heartbeat was answered.
    pub(crate) fn time(&self) -> Option<u64> {
        match self {
            Self::AllDone { time, epochs, .. } => (!epochs.is_empty()).then_some(*time),
            Self::Each(all) => all.as_slice().iter().find_map(|it| match it {
                Ok(ItemReply::Granted { time, .. } | ItemReply::Heartbeat { time, .. }) => {
                    Some(*time)
                }
                Ok(ItemReply::OfNode(answer)) => Some(answer.time),
                _ => None,
            }),
        }
    }

    pub(crate) fn errors(&mut self) -> impl Iterator<Item = &mut CommandError> {
        let all: &mut [_] = match self {
            Self::AllDone { .. } => &mut [],
            Self::Each(all) => all.as_mut_slice(),
        };
        all.iter_mut().filter_map(|it| it.as_mut().err())
    }
}

impl Iterator for Replies {
    type Item = Result<ItemReply, CommandError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::AllDone {
                releases,
                time,
                epochs,
            } => {
                if *releases > 0 {
                    *releases -= 1;
                    return Some(Ok(ItemReply::Other(Value::Int(1))));
                }
                let (time, epoch) = (*time, epochs.next()?);
                Some(Ok(ItemReply::Granted { time, epoch }))
            }
            Self::Each(all) => all.next(),
        }
    }
}

/// The reply to an item that was, or could have been, part of a batch.
#[derive(Debug)]
pub(crate) enum ItemReply {
    /// Granted in a batch.
    Granted { time: u64, epoch: u64 },
    /// The reply of the item's own script.
    Other(Value),
    /// Of a node of a quorum.
    OfNode(Box<OfNode>),
    /// Of a batch of heartbeats; `None`: the waiter has to poll.
    Heartbeat {
        time: u64,
        said: Option<Box<Polled>>,
    },
}

impl ItemReply {
    pub(crate) fn acquired(&self) -> Result<Acquired, CommandError> {
        match *self {
            ItemReply::Granted { time, epoch } => Ok(Acquired::Granted { time, epoch }),
            ItemReply::Other(ref reply) => acquired(reply),
            ItemReply::OfNode(_) | ItemReply::Heartbeat { .. } => {
                Err(unexpected("acquire", &Value::Nil))
            }
        }
    }

    /// Whether the script is to be repeated.
    pub(crate) fn says_again(&self) -> bool {
        matches!(self, ItemReply::Other(reply) if says_again(reply))
    }

    pub(crate) fn of_node(self) -> Result<OfNode, CommandError> {
        match self {
            ItemReply::OfNode(answer) => Ok(*answer),
            _ => Err(unexpected("node", &Value::Nil)),
        }
    }

    pub(crate) fn polled(self) -> Result<Option<Polled>, CommandError> {
        match self {
            ItemReply::Heartbeat { said, .. } => Ok(said.map(|it| *it)),
            _ => Err(unexpected("heartbeat", &Value::Nil)),
        }
    }

    pub(crate) fn given_back(&self) -> Result<Done<GivenBack>, CommandError> {
        match self {
            ItemReply::Other(reply) => given_back(reply),
            _ => Err(unexpected("release", &Value::Nil)),
        }
    }
}

#[cfg(test)]
mod tests;
