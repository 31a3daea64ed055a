//! Reads the answers to single commands and transactions. Pure: an unexpected answer is an error,
//! and its content is never shown, because it may hold a token.

use redis::Value;

use crate::link::command_error::CommandError;
use crate::link::redis::epochs::LARGEST_EPOCH;
use crate::link::redis::{errors, reply};
use crate::values::entry;
use crate::values::error::{Reason, Refusal};

/// What stands at a lock's key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeyContent {
    Nothing,
    By(String),
    /// No string: a kind with many holders, or another program's.
    OtherType,
}

impl KeyContent {
    pub(super) fn is(&self, value: &str) -> bool {
        matches!(self, KeyContent::By(held) if held == value)
    }
}

/// The answer to the read of a string.
pub(super) fn held(value: &Value) -> Result<KeyContent, CommandError> {
    match refused(value) {
        Err(CommandError::Refused(Refusal::WrongType, _)) => return Ok(KeyContent::OtherType),
        other => other?,
    }
    Ok(reply::value(value)?.map_or(KeyContent::Nothing, KeyContent::By))
}

/// The answers to the read of a string and to `PTTL`: a beginning of an absent one is empty.
pub(super) fn held_for(value: &Value, pttl: &Value) -> Result<KeyContent, CommandError> {
    if reply::is_empty(value) && *pttl == reply::NO_KEY {
        return Ok(KeyContent::Nothing);
    }
    held(value)
}

/// The answer to `PTTL`.
pub(super) fn pttl(answer: &Value) -> Result<i64, CommandError> {
    refused(answer)?;
    match answer {
        Value::Int(left) => Ok(*left),
        other => Err(reply::unexpected("PTTL", other)),
    }
}

/// The error in an answer.
pub(super) fn refused(value: &Value) -> Result<(), CommandError> {
    errors::error_of_answer(value).map_or(Ok(()), Err)
}

/// The same, where a key of another type has none of the entries that were asked for.
pub(super) fn refused_at_companion(value: &Value) -> Result<(), CommandError> {
    match refused(value) {
        Err(error) if errors::is_wrong_type(&error) => Ok(()),
        other => other,
    }
}

/// As many answers as commands.
pub(super) fn exactly<const N: usize>(all: Vec<Value>) -> Result<[Value; N], CommandError> {
    all.try_into().map_err(|all: Vec<Value>| {
        CommandError::Unclear(Reason::new(format_args!(
            "{} answers to {N} commands",
            all.len()
        )))
    })
}

/// The answers to a transaction, from `MULTI` to `EXEC`; `None`: a watched key was changed, and
/// nothing was executed.
pub(super) fn executed(mut all: Vec<Value>) -> Result<Option<Vec<Value>>, CommandError> {
    let exec = all.pop().unwrap_or(Value::Nil);
    for queued in &all {
        refused(queued)?; // so that EXEC refuses the whole
    }
    refused(&exec)?;
    match exec {
        Value::Nil => Ok(None),
        Value::Array(items) => Ok(Some(items)),
        other => Err(reply::unexpected("EXEC", &other)),
    }
}

/// The answers to a transaction that watches nothing.
pub(super) fn executed_all<const N: usize>(all: Vec<Value>) -> Result<[Value; N], CommandError> {
    let items = executed(all)?.ok_or_else(|| reply::unexpected("EXEC", &Value::Nil))?;
    exactly(items)
}

/// An epoch above those of all earlier grants of the lock: the larger of the counter and the
/// server's time. Each grant adds to the counter and is later, so the larger rises as long as one
/// of the two does. A counter of another type grants no lock; one that is no number counts as lost.
pub(super) fn epoch(counter: &Value, time: u64) -> Result<u64, CommandError> {
    if let Some(error) = errors::error_of_answer(counter).filter(errors::is_wrong_type) {
        return Err(error);
    }
    let drawn = reply::number(counter).or_else(|| reply::text(counter)?.parse().ok());
    let drawn = drawn.filter(|it| *it <= LARGEST_EPOCH);
    Ok(drawn.map_or(time, |drawn| drawn.max(time)))
}

pub(super) fn texts(list: &Value) -> Result<Vec<String>, CommandError> {
    let text = |it: Vec<u8>| String::from_utf8_lossy(&it).into_owned();
    Ok(members(list)?.into_iter().map(text).collect())
}

/// As they are stored, so that a stranger's can be removed too.
pub(super) fn members(list: &Value) -> Result<Vec<Vec<u8>>, CommandError> {
    refused(list)?;
    let bytes = |item: &Value| match item {
        Value::BulkString(bytes) => Some(bytes.clone()),
        other => reply::text(other).map(String::into_bytes),
    };
    match list {
        Value::Array(items) => items.iter().map(bytes).collect(),
        _ => None,
    }
    .ok_or_else(|| reply::unexpected("ZRANGE", list))
}

/// The meta member of the set at a key, given its member with the score `inf`, if it has one; an error
/// for any other type.
pub(super) fn meta(last: &Value) -> Result<String, CommandError> {
    let refused = |refusal, why| Err(CommandError::Refused(refusal, Reason::new(why)));
    let last = match texts(last) {
        Err(CommandError::Refused(Refusal::WrongType, _)) => Vec::new(),
        other => other?,
    };
    match last.into_iter().next() {
        Some(meta) if meta.starts_with(entry::META) && meta.len() <= entry::LONGEST => Ok(meta),
        Some(other) if other.starts_with(entry::META) || entry::is_other_layout(&other) => {
            refused(Refusal::Layout, "the set at the key is of another layout")
        }
        _ => refused(
            Refusal::WrongType,
            "the key holds a value that is not a string",
        ),
    }
}
