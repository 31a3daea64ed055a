//! Reads the reply of `node.lua`, item by item or in short. One unreadable item fails only that item; a reply of another shape fails them all.

use redis::Value;

use super::{busy, number, other_type, text, unexpected};
use crate::link::command_error::CommandError;
use crate::link::redis::errors;
use crate::rules::ballots::{Adopted, Outvoted, Vote};
use crate::rules::commands::Cancelled;

/// The reply of `node.lua` to one item.
#[derive(Debug)]
pub(crate) struct OfNode {
    /// The node's time.
    pub(crate) time: u64,
    /// `None`: it was done as asked.
    said: Option<Value>,
    /// It was one of several items.
    pub(crate) is_of_a_batch: bool,
}

/// The reply to each item.
pub(crate) fn of_node(
    reply: Value,
    asked: usize,
) -> Result<Vec<Result<OfNode, CommandError>>, CommandError> {
    let error = |item: &Value| match item {
        Value::Array(words) if words.first() == Some(&Value::Int(9)) => text(words.get(1)?),
        _ => None,
    };
    let is_of_a_batch = asked > 1;
    match reply {
        Value::Array(items) if items.len() == 1 && is_of_a_batch => {
            let time = items.first().and_then(number);
            let time = time.ok_or_else(|| unexpected("node", &Value::Nil))?;
            let one = || {
                Ok(OfNode {
                    time,
                    said: None,
                    is_of_a_batch,
                })
            };
            Ok(std::iter::repeat_with(one).take(asked).collect())
        }
        Value::Array(items) if items.len() == asked + 1 => {
            let mut items = items.into_iter();
            let time = items.next().as_ref().and_then(number);
            let time = time.ok_or_else(|| unexpected("node", &Value::Nil))?;
            let one = |said| match error(&said) {
                Some(said) => Err(errors::error_of_item(&said)),
                None => Ok(OfNode {
                    time,
                    said: Some(said),
                    is_of_a_batch,
                }),
            };
            Ok(items.map(one).collect())
        }
        other => Err(unexpected("node", &other)),
    }
}

impl OfNode {
    /// `proposal`: the epoch that the ballot proposed.
    pub(crate) fn vote(&self, proposal: u64) -> Result<Vote, CommandError> {
        let time = self.time;
        let Some(said) = &self.said else {
            let epoch = proposal;
            return Ok(Vote::Granted { time, epoch });
        };
        let read = || {
            if let Some(epoch) = number(said) {
                return Some(Ok(Vote::Granted { time, epoch }));
            }
            let Value::Array(items) = said else {
                return None;
            };
            Some(Ok(match items.first()? {
                Value::Int(2) => Vote::Busy(Outvoted {
                    busy: busy(time, items.get(1)?, items.get(2)?)?,
                    last_epoch: number(items.get(3)?)?,
                    rank: u32::try_from(number(items.get(4)?)?).unwrap_or(u32::MAX),
                }),
                Value::Int(5) => Vote::Late { time },
                Value::Int(6) => return Some(Err(other_type(items.get(1)))),
                Value::Int(8) => Vote::WrongKind {
                    time,
                    there: text(items.get(1)?)?,
                },
                _ => return None,
            }))
        };
        read().unwrap_or_else(|| Err(self.unexpected("vote")))
    }

    pub(crate) fn adopted(&self) -> Result<Adopted, CommandError> {
        match &self.said {
            Some(Value::Int(1)) => Ok(Adopted::Yes),
            Some(Value::Int(0)) => Ok(Adopted::Gone),
            _ => Err(self.unexpected("adopt")),
        }
    }

    /// `not_after`: the end of the ballot's time; 0: it was answered.
    pub(crate) fn taken_back(&self, not_after: u64) -> Result<Cancelled, CommandError> {
        let read = |said: &Value| match said {
            Value::Int(found @ (0 | 1)) => Some((*found == 1, 0)),
            Value::Array(items) => match &items[..] {
                [Value::Int(found @ (0 | 1)), rest] => {
                    Some((*found == 1, u32::try_from(number(rest)?).ok()?))
                }
                _ => None,
            },
            _ => None,
        };
        let (found, rest) = match &self.said {
            None => (true, 0),
            Some(said) => read(said).ok_or_else(|| self.unexpected("take_back"))?,
        };
        Ok(Cancelled {
            time: self.time,
            found,
            conclusive: found || self.time > not_after,
            rest,
            is_recorded: false,
        })
    }

    pub(crate) fn downgraded(&self) -> Result<bool, CommandError> {
        match &self.said {
            Some(Value::Int(reads @ (0 | 1))) => Ok(*reads == 1),
            _ => Err(self.unexpected("downgrade")),
        }
    }

    fn unexpected(&self, command: &str) -> CommandError {
        unexpected(command, self.said.as_ref().unwrap_or(&Value::Nil))
    }

    /// More entries have lapsed than one call removes.
    pub(crate) fn says_again(&self) -> bool {
        matches!(&self.said, Some(Value::Array(items)) if items[..] == [Value::Int(10)])
    }
}
