//! Reads locks for an administrator: plain commands, but for the sets, whose members only a script can
//! cut. Without scripts, where no lock is a set, they are read whole.
//!
//! One pipeline carries the commands about all locks of a page, and a second one those about the
//! sets among them; in a cluster, keys that have moved are looked up at their new node. Nothing
//! keeps others' commands out between two of them, so a lock that changes hands may be read half
//! before and half after it. Invariants: it writes nothing; no command reads more than the caller's
//! bound, so none blocks the server for long.

use std::time::Duration;

use redis::{Cmd, Value};

use super::RedisLink;
use super::moving::NodeAnswer;
use crate::link::command_error::CommandError;
use crate::link::redis::reads::Reads;
use crate::link::redis::reply;
use crate::link::redis::scripts::{self, CallBy};
use crate::values::error::Refusal;
use crate::values::report::pattern::beginning_with;
use crate::values::report::{Part, Scanned, Sought, Stored, StoredLock, StoredSet};

/// How many keys one step looks at.
const KEYS_AT_ONCE: usize = 100;

/// How many commands ask about one lock, before a set is read.
const EACH: usize = 5;

impl RedisLink {
    pub(super) async fn scan(
        &self,
        sought: Sought,
        prefix: &str,
        cursor: &str,
        within: Duration,
    ) -> Result<Scanned, CommandError> {
        let names = &self.connection.names;
        let begins = match sought {
            Sought::Locks => beginning_with(prefix),
            Sought::Records => beginning_with(&names.records()),
        };
        let mut scan = redis::pipe();
        let begin = if cursor.is_empty() { "0" } else { cursor };
        scan.cmd("SCAN").arg(begin);
        scan.arg("MATCH").arg(begins);
        scan.arg("COUNT").arg(KEYS_AT_ONCE);
        let (answers, _) = self.connection.exchange(scan, within).await?;
        let answer = answers.first().unwrap_or(&Value::Nil);
        self.connection
            .error_of_answer(answer)
            .map_or(Ok(()), Err)?;
        let mut scanned = scanned(answer).ok_or_else(|| reply::unexpected("SCAN", answer))?;
        if sought == Sought::Records {
            let locks = scanned.keys.iter().filter_map(|it| names.of_record(it));
            scanned.keys = locks.filter(|it| it.starts_with(prefix)).collect();
        }
        Ok(scanned)
    }

    pub(super) async fn inspect(
        &self,
        locks: &[&str],
        part: Part,
        within: Duration,
    ) -> Result<Vec<Stored>, CommandError> {
        let Some(first) = locks.first() else {
            return Ok(Vec::new());
        };
        let counter = self.connection.names.of(first).counter;
        let mut ask = vec![
            redis::cmd("TIME"),
            self.connection.reading.now().get(&counter),
        ];
        for lock in locks {
            self.ask_about(lock, part, &mut ask);
        }
        let answers = self.at_its_node(&ask, within).await;
        let mut all = read_all(&answers, locks.len())?;
        let each = all.iter_mut().zip(locks.iter().copied());
        let is_set = |(stored, _): &(&mut Stored, &str)| matches!(stored.lock, StoredLock::Set(_));
        let mut sets: Vec<(&mut Stored, &str)> = each.filter(is_set).collect();
        if sets.is_empty() {
            return Ok(all);
        }
        let (mut ask, count) = (Vec::new(), sets.len());
        for (_, lock) in &sets {
            self.ask_about_set(lock, part, &mut ask);
        }
        // The whole time again: what a slow first answer left could be too short for any.
        let answers = self.at_its_node(&ask, within).await;
        for ((stored, _), answers) in sets.iter_mut().zip(answers.chunks(ask.len() / count)) {
            read_set(&mut stored.lock, answers)?;
        }
        Ok(all)
    }

    /// The commands whose answers [`read_lock`] reads.
    fn ask_about(&self, lock: &str, part: Part, ask: &mut Vec<Cmd>) {
        let of = self.connection.names.of(lock);
        let (queue, heartbeats) = (of.queue.text(), of.heartbeats.text());
        let value = self.connection.reading.now().get(lock);
        ask.extend([value, Cmd::pttl(lock), Cmd::zcard(&queue)]);
        ask.extend([range(&queue, part), range(&heartbeats, part)]);
    }

    /// The commands whose answers [`read_set`] reads: the size, the meta, and a part of the others, both
    /// of which a script reads together.
    fn ask_about_set(&self, lock: &str, part: Part, ask: &mut Vec<Cmd>) {
        let [from, most] = [part.from, part.most].map(|it| it.to_string());
        ask.push(Cmd::zcard(lock));
        if self.connection.has_scripts {
            let words = &[from.as_str(), &most];
            ask.push(scripts::MEMBERS.call(CallBy::Text(Reads::Whole), &[lock], words));
            return;
        }
        for words in [
            &["inf", "inf", "BYSCORE", "REV", "LIMIT", "0", "1"][..],
            &[
                "-inf",
                "(inf",
                "BYSCORE",
                "LIMIT",
                &from,
                &most,
                "WITHSCORES",
            ],
        ] {
            let mut range = redis::cmd("ZRANGE");
            range.arg(lock).arg(words);
            ask.push(range);
        }
    }
}

fn range(key: &str, part: Part) -> Cmd {
    let last = part.from + part.most - 1;
    let mut range = redis::cmd("ZRANGE");
    range.arg(key).arg(part.from).arg(last).arg("WITHSCORES");
    range
}

fn scanned(answer: &Value) -> Option<Scanned> {
    let Value::Array(items) = answer else {
        return None;
    };
    let (Some(cursor), Some(Value::Array(keys))) = (items.first(), items.get(1)) else {
        return None;
    };
    let utf8 = |key: &Value| match key {
        Value::BulkString(bytes) => String::from_utf8(bytes.clone()).ok(), // else it is no lock's
        _ => None,
    };
    let cursor: u64 = reply::text(cursor)?.parse().ok()?;
    Some(Scanned {
        cursor: Some(cursor)
            .filter(|it| *it > 0)
            .map_or_else(String::new, |it| it.to_string()),
        keys: keys.iter().filter_map(utf8).collect(),
    })
}

fn read_all(answers: &[NodeAnswer], locks: usize) -> Result<Vec<Stored>, CommandError> {
    let ([time, counter], each) = answers
        .split_first_chunk::<2>()
        .ok_or_else(|| reply::unexpected("TIME", &Value::Nil))?;
    let time = reply::time(told(time)?)?;
    let last_epoch = reply::text(told(counter)?).and_then(|it| it.parse().ok()); // a stranger's is no epoch
    let all = each
        .chunks(EACH)
        .map(|answers| read_lock(answers, time, last_epoch));
    let all = all.collect::<Result<Vec<Stored>, CommandError>>()?;
    if all.len() != locks {
        return Err(reply::unexpected("GET", &Value::Nil));
    }
    Ok(all)
}

/// The answers about one lock. A set is left empty, for [`read_set`].
fn read_lock(
    answers: &[NodeAnswer],
    time: u64,
    last_epoch: Option<u64>,
) -> Result<Stored, CommandError> {
    let [value, pttl, queue_len, queue, heartbeats] = answers else {
        return Err(reply::unexpected("GET", &Value::Nil));
    };
    let pttl = told(pttl)?;
    let left = match pttl {
        Value::Int(ms) => u64::try_from(*ms).ok().map(Duration::from_millis),
        other => return Err(reply::unexpected("PTTL", other)),
    };
    let silent = members(heartbeats)?.into_iter();
    let silent = silent.filter(|(_, until)| *until <= time);
    Ok(Stored {
        time,
        lock: match value {
            Ok(value) if *pttl == reply::NO_KEY && reply::is_empty(value) => StoredLock::Nothing,
            value => read_value(value, left)?,
        },
        queue_len: length(queue_len)?,
        queue: members(queue)?,
        silent: silent.map(|(entry, _)| entry).collect(),
        last_epoch,
        kept_by: None,
    })
}

fn read_value(value: &NodeAnswer, left: Option<Duration>) -> Result<StoredLock, CommandError> {
    if is_other_type(value) {
        return Ok(StoredLock::Set(StoredSet {
            members: Vec::new(),
            last: Vec::new(),
            count: 0,
            left,
        }));
    }
    match told(value)? {
        Value::Nil => Ok(StoredLock::Nothing),
        Value::BulkString(value) => Ok(StoredLock::Value {
            value: value.clone(),
            left,
        }),
        other => Err(reply::unexpected("GET", other)),
    }
}

fn read_set(lock: &mut StoredLock, answers: &[NodeAnswer]) -> Result<(), CommandError> {
    let ([count, last, range @ ..], StoredLock::Set(set)) = (answers, &mut *lock) else {
        return Err(reply::unexpected("ZRANGE", &Value::Nil));
    };
    if is_other_type(last) {
        *lock = StoredLock::OtherType;
        return Ok(());
    }
    let count = length(count)?;
    let (last, behind) = match told(last)? {
        Value::Array(items) => items.split_first().unwrap_or((&Value::Nil, &[])),
        other => return Err(reply::unexpected("ZRANGE", other)),
    };
    let Value::BulkString(last) = last else {
        // It ended meanwhile, or is a stranger's, as each set of ours has a meta.
        *lock = if count == 0 {
            StoredLock::Nothing
        } else {
            StoredLock::OtherType
        };
        return Ok(());
    };
    set.last.clone_from(last);
    set.members = match range.first() {
        Some(range) => members(range)?,
        None => pairs(behind).ok_or_else(|| reply::unexpected("ZRANGE", &Value::Nil))?,
    };
    set.members.retain(|(member, _)| member != last);
    set.count = count.saturating_sub(1);
    Ok(())
}

/// The number of a set's members; 0 for a key of another type, which is none of ours.
fn length(answer: &NodeAnswer) -> Result<usize, CommandError> {
    if is_other_type(answer) {
        return Ok(0);
    }
    let answer = told(answer)?;
    let length = reply::number(answer).and_then(|it| usize::try_from(it).ok());
    length.ok_or_else(|| reply::unexpected("ZCARD", answer))
}

/// Members with their scores, in either protocol's shape: pairs, or one flat list. Nothing for a
/// key of another type.
fn members(answer: &NodeAnswer) -> Result<Vec<(Vec<u8>, u64)>, CommandError> {
    if is_other_type(answer) {
        return Ok(Vec::new());
    }
    let answer = told(answer)?;
    let unexpected = || reply::unexpected("ZRANGE", answer);
    let Value::Array(items) = answer else {
        return Err(unexpected());
    };
    let is_in_pairs = matches!(items.first(), Some(Value::Array(_)));
    let all: Option<Vec<_>> = if is_in_pairs {
        let each = items.iter().map(|pair| match pair {
            Value::Array(pair) => member_of(pair),
            _ => None,
        });
        each.collect()
    } else {
        pairs(items)
    };
    all.ok_or_else(unexpected)
}

/// Members that are each followed by their score.
fn pairs(items: &[Value]) -> Option<Vec<(Vec<u8>, u64)>> {
    items.chunks(2).map(member_of).collect()
}

fn member_of(pair: &[Value]) -> Option<(Vec<u8>, u64)> {
    match pair {
        [Value::BulkString(member), score] => Some((member.clone(), score_of(score)?)),
        _ => None,
    }
}

/// A time in µs. A negative or infinite one, which only a stranger or a meta has, is the nearest
/// that there is.
fn score_of(score: &Value) -> Option<u64> {
    let number = match score {
        Value::Double(number) => *number,
        other => reply::text(other)?.parse::<f64>().ok()?,
    };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, as meant"
    )]
    Some(number as u64)
}

fn is_other_type(answer: &NodeAnswer) -> bool {
    matches!(answer, Err(CommandError::Refused(Refusal::WrongType, _)))
}

fn told(answer: &NodeAnswer) -> Result<&Value, CommandError> {
    answer.as_ref().map_err(CommandError::clone)
}
