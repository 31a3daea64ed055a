//! Reads the server's replies. A reply of an unexpected shape is an error, never guessed at, and
//! its content is never shown, because it may hold a token. Never in this folder: a command, a retry,
//! or what an answer means for a lock.

pub(crate) mod combined;
pub(crate) mod heartbeat;
pub(crate) mod node;

use std::time::Duration;

use redis::Value;

use crate::link::command_error::CommandError;
use crate::rules::commands::{
    Acquired, AcquiredAll, Busy, Cancelled, GivenBack, Left, NotDue, Polled, Renewed,
};
use crate::rules::last_run::StoredRecord;
use crate::values::error::{Reason, Refusal};

pub(crate) use self::combined::{ItemReply, Replies, combined};
pub(crate) use self::heartbeat::heartbeat;
pub(crate) use self::node::{OfNode, of_node};

/// The first number of a reply of a script that had more entries to remove than one call does, and
/// has done nothing else yet: it is to be repeated.
const AGAIN: i64 = 10;

pub(crate) fn says_again(reply: &Value) -> bool {
    matches!(reply, Value::Array(items) if items.first() == Some(&Value::Int(AGAIN)))
}

/// The result of a command that gives a lock back. `more`: other waiters may be granted the lock,
/// but the server has handled as many as one call does.
#[derive(Debug)]
pub(crate) struct Done<T> {
    pub(crate) answer: T,
    pub(crate) more: bool,
}

/// A flag after the other items of a reply.
fn more(reply: &Value, at: usize) -> bool {
    item(reply, at) == Some(&Value::Int(1))
}

fn item(reply: &Value, at: usize) -> Option<&Value> {
    match reply {
        Value::Array(items) => items.get(at),
        _ => None,
    }
}

pub(crate) fn acquired(reply: &Value) -> Result<Acquired, CommandError> {
    match outcome(reply) {
        Some(AcquireReply::Granted { time, epoch }) => Ok(Acquired::Granted { time, epoch }),
        Some(AcquireReply::Busy(busy)) => Ok(Acquired::Busy(busy)),
        Some(AcquireReply::Queued(busy)) => Ok(Acquired::Queued(busy)),
        Some(AcquireReply::Yours { time, epoch, left }) => {
            Ok(Acquired::Yours { time, epoch, left })
        }
        Some(AcquireReply::Late { time }) => Ok(Acquired::Late { time }),
        Some(AcquireReply::WrongKind { time, there }) => Ok(Acquired::WrongKind {
            time,
            there,
            is_open: false,
        }),
        Some(AcquireReply::NotDue(not_due)) => Ok(Acquired::NotDue(not_due)),
        Some(AcquireReply::OtherType) => Err(other_type(item(reply, 2))),
        Some(AcquireReply::Gone { .. }) | None => Err(unexpected("acquire", reply)),
    }
}

pub(crate) fn acquired_all(reply: &Value, asked: usize) -> Result<AcquiredAll, CommandError> {
    let read = || {
        let Value::Array(items) = reply else {
            return None;
        };
        let (Value::Int(kind), time) = (items.first()?, number(items.get(1)?)?) else {
            return None;
        };
        let epochs = || {
            let first = number(items.get(2)?)?;
            (0..u64::try_from(asked).ok()?)
                .map(|it| first.checked_add(it))
                .collect::<Option<Vec<u64>>>()
        };
        Some(match kind {
            1 => AcquiredAll::All {
                time,
                epochs: epochs()?,
                left: None,
            },
            2 => AcquiredAll::Not {
                at: usize::try_from(number(items.get(2)?)?).ok()?,
                busy: busy(time, items.get(3)?, items.get(4)?)?,
            },
            4 => AcquiredAll::All {
                time,
                epochs: epochs()?,
                left: Some(left(items.get(3)?)?),
            },
            5 => AcquiredAll::Late { time },
            _ => return None,
        })
    };
    read().ok_or_else(|| unexpected("acquire_all", reply))
}

pub(crate) fn polled(reply: &Value) -> Result<Polled, CommandError> {
    match outcome(reply) {
        Some(AcquireReply::Queued(busy)) => Ok(Polled::Queued(busy)),
        Some(AcquireReply::Yours { time, epoch, left }) => Ok(Polled::Yours { time, epoch, left }),
        Some(AcquireReply::Gone { time }) => Ok(Polled::Gone { time }),
        Some(AcquireReply::NotDue(not_due)) => Ok(Polled::NotDue(not_due)),
        Some(AcquireReply::OtherType) => Err(other_type(item(reply, 2))),
        _ => Err(unexpected("poll", reply)),
    }
}

/// The reply of `acquire` and `poll`, by its first number.
enum AcquireReply {
    Granted {
        time: u64,
        epoch: u64,
    },
    Busy(Busy),
    Queued(Busy),
    Yours {
        time: u64,
        epoch: u64,
        left: Duration,
    },
    Late {
        time: u64,
    },
    OtherType,
    Gone {
        time: u64,
    },
    WrongKind {
        time: u64,
        there: String,
    },
    NotDue(NotDue),
}

fn outcome(reply: &Value) -> Option<AcquireReply> {
    if let Some(time) = number(reply) {
        return Some(AcquireReply::Granted { time, epoch: time });
    }
    let Value::Array(items) = reply else {
        return None;
    };
    let Value::Int(kind) = items.first()? else {
        return None;
    };
    let time = number(items.get(1)?)?;
    let busy = || busy(time, items.get(2)?, items.get(3)?);
    let epoch = || number(items.get(2)?);
    Some(match kind {
        1 => AcquireReply::Granted {
            time,
            epoch: epoch()?,
        },
        2 => AcquireReply::Busy(busy()?),
        3 => AcquireReply::Queued(busy()?),
        4 => AcquireReply::Yours {
            time,
            epoch: epoch()?,
            left: left(items.get(3)?)?,
        },
        5 => AcquireReply::Late { time },
        6 => AcquireReply::OtherType,
        7 => AcquireReply::Gone { time },
        8 => AcquireReply::WrongKind {
            time,
            there: text(items.get(2)?)?,
        },
        11 => AcquireReply::NotDue(NotDue {
            time,
            left: Duration::from_millis(number(items.get(2)?)?),
            record: text(items.get(3)?)?,
        }),
        _ => return None,
    })
}

/// The time left of our own lease.
fn left(pttl: &Value) -> Option<Duration> {
    Some(match pttl {
        // The key has lost its time to live (`PERSIST`), or has lapsed meanwhile: rely on nothing.
        Value::Int(-2 | -1) => Duration::ZERO,
        left => Duration::from_millis(number(left)?),
    })
}

fn busy(time: u64, left: &Value, value: &Value) -> Option<Busy> {
    let left = match left {
        Value::Int(-1) => Left::Endless,
        // Free, but the first queue entry can't be parsed; or the key lapsed while the script ran.
        Value::Int(-2) => Left::For(Duration::ZERO),
        left => Left::For(Duration::from_millis(number(left)?)),
    };
    let value = text(value)?;
    Some(Busy { time, left, value })
}

/// `layout` says whether it is a set of another layout.
fn other_type(layout: Option<&Value>) -> CommandError {
    if layout == Some(&Value::Int(1)) {
        let why = Reason::new("the set at the key is of another layout");
        return CommandError::Refused(Refusal::Layout, why);
    }
    let why = Reason::new("the key holds a value that is not a string");
    CommandError::Refused(Refusal::WrongType, why)
}

pub(crate) fn cancelled(reply: &Value) -> Result<Done<Cancelled>, CommandError> {
    let read = || {
        let Value::Array(items) = reply else {
            return None;
        };
        Some(Cancelled {
            found: number(items.first()?)? == 1,
            conclusive: number(items.get(1)?)? == 1,
            time: number(items.get(2)?)?,
            rest: match items.get(3) {
                Some(rest) => u32::try_from(number(rest)?).ok()?,
                None => 0,
            },
            is_recorded: item(reply, 5) == Some(&Value::Int(1)),
        })
    };
    let answer = read().ok_or_else(|| unexpected("cancel", reply))?;
    let more = more(reply, 4);
    Ok(Done { answer, more })
}

/// `renew`'s answer for a key that it may not write because the server is a replica.
const READ_ONLY: i64 = -2;

/// Whether a `renew` was executed by a replica.
pub(crate) fn says_read_only(reply: &Value) -> bool {
    matches!(reply, Value::Array(items) if items.contains(&Value::Int(READ_ONLY)))
}

pub(crate) fn renewed(reply: &Value, asked: usize) -> Result<Vec<Renewed>, CommandError> {
    let outcome = |item: &Value| match item {
        Value::Int(1) => Some(Renewed::Yes),
        Value::Int(0) => Some(Renewed::NotOurs),
        Value::Int(-1 | READ_ONLY) => Some(Renewed::Failed),
        _ => None,
    };
    match reply {
        Value::Int(1) => Some(vec![Renewed::Yes; asked]),
        Value::Array(items) if items.len() == asked => items.iter().map(outcome).collect(),
        _ => None,
    }
    .ok_or_else(|| unexpected("renew", reply))
}

pub(crate) fn given_back(reply: &Value) -> Result<Done<GivenBack>, CommandError> {
    let read = || match reply {
        Value::Array(items) => Some(GivenBack {
            found: number(items.first()?)? == 1,
            rest: u32::try_from(number(items.get(1)?)?).unwrap_or(u32::MAX),
            is_open: false,
            is_recorded: items.get(4) == Some(&Value::Int(1)),
        }),
        found => Some(GivenBack {
            found: number(found)? == 1,
            rest: 0,
            is_open: false,
            is_recorded: false,
        }),
    };
    let answer = read().ok_or_else(|| unexpected("release", reply))?;
    let more = more(reply, 2);
    Ok(Done { answer, more })
}

pub(crate) fn downgraded(reply: &Value) -> Result<Done<bool>, CommandError> {
    let reads = match reply {
        Value::Array(items) => items.first().and_then(number),
        reads => number(reads),
    };
    let answer = reads.ok_or_else(|| unexpected("downgrade", reply))? == 1;
    let more = more(reply, 2);
    Ok(Done { answer, more })
}

/// The reply of `holders`.
pub(crate) struct Holders {
    /// The given entry holds the lock.
    pub(crate) found: bool,
    /// The first holder's entry.
    pub(crate) holder: Option<String>,
}

pub(crate) fn holders(reply: &Value) -> Result<Holders, CommandError> {
    let Value::Array(items) = reply else {
        return Err(unexpected("holders", reply));
    };
    match items.first().zip(items.get(1).and_then(text)) {
        Some((Value::Int(-1), _)) => Err(other_type(item(reply, 2))),
        Some((Value::Int(found), holder)) => Ok(Holders {
            found: *found == 1,
            holder: Some(holder).filter(|it| !it.is_empty()),
        }),
        _ => Err(unexpected("holders", reply)),
    }
}

/// The value at a key. Bytes that are not UTF-8 can't be ours; they are converted lossily.
pub(crate) fn value(reply: &Value) -> Result<Option<String>, CommandError> {
    match reply {
        Value::Nil => Ok(None),
        found => text(found)
            .map(Some)
            .ok_or_else(|| unexpected("GET", reply)),
    }
}

/// The record of a lock's last run, by the answers to a read and to PTTL.
pub(crate) fn stored_record(
    text: &Value,
    left: &Value,
    time: u64,
) -> Result<Option<StoredRecord>, CommandError> {
    let text = value(text)?.filter(|_| *left != NO_KEY);
    let ends = |left: u64| time.saturating_add(left.saturating_mul(1000));
    Ok(text.map(|text| StoredRecord {
        text: text.into(),
        expires: number(left).map(ends),
    }))
}

/// The reply of PTTL for an absent key.
pub(crate) const NO_KEY: Value = Value::Int(-2);

/// Whether a string that was read is empty, or the beginning of one that is not there.
pub(crate) fn is_empty(reply: &Value) -> bool {
    matches!(reply, Value::BulkString(bytes) if bytes.is_empty())
}

/// The reply of TIME, in µs.
pub(crate) fn time(reply: &Value) -> Result<u64, CommandError> {
    let read: Option<u64> = match reply {
        Value::Array(items) => items
            .first()
            .zip(items.get(1))
            .and_then(|(seconds, micros)| {
                let seconds: u64 = text(seconds)?.parse().ok()?;
                seconds
                    .checked_mul(1_000_000)?
                    .checked_add(text(micros)?.parse().ok()?)
            }),
        _ => None,
    };
    read.ok_or_else(|| unexpected("TIME", reply))
}

/// A field of HELLO's reply, in either protocol's shape.
pub(crate) fn field(hello: &Value, name: &str) -> Option<String> {
    match hello {
        Value::Map(fields) => fields
            .iter()
            .find(|(key, _)| is(key, name))
            .and_then(|(_, it)| text(it)),
        Value::Array(items) => items
            .chunks(2)
            .find(|pair| is(&pair[0], name))
            .and_then(|pair| text(pair.get(1)?)),
        _ => None,
    }
}

fn is(value: &Value, name: &str) -> bool {
    text(value).is_some_and(|it| it == name)
}

pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

pub(crate) fn text(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// The error for an unexpected reply; it names the reply's type, never its content, which may hold
/// a token.
pub(crate) fn unexpected(operation: &str, reply: &Value) -> CommandError {
    let kind = match reply {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::BulkString(_) | Value::SimpleString(_) | Value::VerbatimString { .. } => "text",
        Value::Array(_) => "a list of another shape",
        Value::Okay => "OK",
        _ => "another type",
    };
    CommandError::Unclear(Reason::new(format_args!(
        "unexpected answer to {operation}: {kind}"
    )))
}
