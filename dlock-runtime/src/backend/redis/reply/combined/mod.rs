//! Reads the reply to a batch, item by item. Does not repeat or retry. One unreadable item fails
//! only that item; a reply of another shape fails them all.

use redis::Value;

use super::node::OfNode;
use super::{Done, acquired, given_back, number, says_again, text, unexpected};
use crate::backend::command_error::CommandError;
use crate::backend::redis::errors;
use crate::policy::commands::{Acquired, GivenBack};

/// Reads the reply of `combined`: the time, and for each item what its own script would reply, or
/// its error. A granted lock is its epoch alone, which can't be confused with a release's reply:
/// that is at most 1.
pub(in crate::backend::redis) fn combined(
    reply: Value,
    asked: usize,
) -> Result<Vec<Result<Item, CommandError>>, CommandError> {
    let error = |item: &Value| match item {
        Value::Array(words) if words.first() == Some(&Value::Int(9)) => text(words.get(1)?),
        _ => None,
    };
    match reply {
        Value::Array(items) if items.len() == asked + 1 => {
            let mut items = items.into_iter();
            let time = items.next().as_ref().and_then(number).unwrap_or(0);
            let one = |item| match (number(&item), error(&item)) {
                (Some(epoch @ 2..), _) => Ok(Item::Granted { time, epoch }),
                (_, Some(said)) => Err(errors::error_of_item(&said)),
                _ => Ok(Item::Other(item)),
            };
            Ok(items.map(one).collect())
        }
        other => Err(unexpected("combined", &other)),
    }
}

/// The reply to an item that was, or could have been, part of a batch.
#[derive(Debug)]
pub(in crate::backend::redis) enum Item {
    /// Granted in a batch.
    Granted { time: u64, epoch: u64 },
    /// The reply of the item's own script.
    Other(Value),
    /// Of a node of a quorum.
    OfNode(Box<OfNode>),
}

impl Item {
    pub(in crate::backend::redis) fn acquired(&self) -> Result<Acquired, CommandError> {
        match *self {
            Item::Granted { time, epoch } => Ok(Acquired::Granted { time, epoch }),
            Item::Other(ref reply) => acquired(reply),
            Item::OfNode(_) => Err(unexpected("acquire", &Value::Nil)),
        }
    }

    /// Whether the script is to be repeated.
    pub(in crate::backend::redis) fn says_again(&self) -> bool {
        matches!(self, Item::Other(reply) if says_again(reply))
    }

    pub(in crate::backend::redis) fn of_node(self) -> Result<OfNode, CommandError> {
        match self {
            Item::OfNode(answer) => Ok(*answer),
            _ => Err(unexpected("node", &Value::Nil)),
        }
    }

    pub(in crate::backend::redis) fn given_back(&self) -> Result<Done<GivenBack>, CommandError> {
        match self {
            Item::Granted { .. } | Item::OfNode(_) => Err(unexpected("release", &Value::Nil)),
            Item::Other(reply) => given_back(reply),
        }
    }
}
