//! Runs an operation of the server's machine in a transaction: what is read under `WATCH` is its window,
//! and its difference is written.
//!
//! Invariant: a key is changed only if it has the expected value when the transaction is executed;
//! an entry is granted only if it stands in the queue then.

use std::time::Duration;

use redis::Value;
use tokio::time::Instant;

use super::answers;
use super::checkout::CheckedOut;
use super::seen::{Decided, SeenKey, is_exclusive, runs_once};
use super::{PlainLink, micros};
use crate::link::command_error::CommandError;
use crate::link::redis::names::LockKeys;
use crate::link::redis::reply::stored_record;
use crate::rules::last_run::StoredRecord;
use crate::rules::queue;
use crate::values::error::Reason;

/// After so many transactions that others' heartbeats broke, the queue is not watched any more: the
/// lock is deleted, and a poll grants it.
const WITH_QUEUE: u32 = 8;

/// Our estimate of the server's time may be too early by this much, if its clock was not set.
const EARLY_BY_AT_MOST: Duration = Duration::from_secs(1);

/// What of the queue an operation is decided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QueueView<'a> {
    /// Whom it grants the lock to.
    Head,
    /// And whether this entry waits. It can't be decided without.
    HeadAnd(&'a str),
    None,
}

impl PlainLink {
    /// Returns the answer and the counter, if an epoch was drawn; `None`: others changed the key or
    /// its queue in each attempt.
    pub(super) async fn run_watched<T>(
        &self,
        lock: &str,
        (view, with_record): (QueueView<'_>, bool),
        until: Instant,
        decide: impl Fn(&SeenKey) -> Result<Decided<T>, CommandError>,
    ) -> Result<Option<(T, Value)>, CommandError> {
        let keys = self.link.connection.names.of(lock);
        let mut connection = self.checkouts.check_out(&self.plan, until).await?;
        let mut round = 0;
        while Instant::now() < until {
            round += 1;
            let view = match view {
                _ if round <= WITH_QUEUE => view,
                QueueView::HeadAnd(_) => break,
                QueueView::Head | QueueView::None => QueueView::None,
            };
            let seen = self
                .watch(&mut connection, (lock, &keys), (view, with_record), until)
                .await?;
            let decided = decide(&seen)?;
            if decided.is_settled() && !decided.draws {
                connection.unwatch(until).await?;
                return Ok(Some((decided.answer, Value::Nil)));
            }
            let commands = seen.transaction(&decided, lock, &keys);
            let executed = answers::executed(connection.end(commands, until).await?)?;
            if let Some(items) = executed {
                items.iter().try_for_each(ignoring_the_counter)?;
                if !decided.again {
                    let counter = items.into_iter().nth(1).filter(|_| decided.draws);
                    return Ok(Some((decided.answer, counter.unwrap_or(Value::Nil))));
                }
            }
        }
        Ok(None)
    }

    async fn watch(
        &self,
        connection: &mut CheckedOut<'_>,
        (lock, keys): (&str, &LockKeys<'_>),
        (view, with_record): (QueueView<'_>, bool),
        until: Instant,
    ) -> Result<SeenKey, CommandError> {
        let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
        let mut commands = redis::pipe();
        commands.cmd("WATCH").arg(lock);
        if view != QueueView::None {
            commands.arg(&queue);
        }
        commands.add_command(self.reads().get(lock));
        commands.cmd("PTTL").arg(lock).cmd("TIME");
        if view != QueueView::None {
            commands.cmd("ZRANGE").arg(&queue).arg(0).arg(0);
            commands.cmd("ZRANGE").arg(&heartbeats).arg("-inf");
            let time = connection.server_time();
            commands.arg(time).arg("BYSCORE");
            commands.arg("LIMIT").arg(0).arg(queue::ENTRIES_AT_ONCE);
            let latest = time.saturating_add(micros(queue::HEARTBEAT + EARLY_BY_AT_MOST));
            commands.cmd("ZRANGE").arg(&heartbeats).arg(latest);
            commands.arg("+inf").arg("BYSCORE");
            commands.arg("LIMIT").arg(0).arg(queue::ENTRIES_AT_ONCE);
        }
        if let QueueView::HeadAnd(own) = view {
            commands.cmd("ZSCORE").arg(&queue).arg(own);
        }
        let (answers, sent) = connection.watch(commands, until).await?;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil);
        answers::refused(&next())?;
        let (value, pttl, time) = (next(), next(), self.heard(&next(), sent)?);
        connection.heard(time, sent); // by whose clock the next round asks
        let mut seen = SeenKey::of_lock(&value, &pttl, time)?;
        if view != QueueView::None {
            seen.head = members(&next())?.into_iter().next();
            seen.others_wait = seen.head.is_some();
            seen.lapsed = members(&next())?;
            seen.ahead = members(&next())?;
        }
        if let QueueView::HeadAnd(own) = view {
            let score = next();
            answers::refused(&score)?;
            seen.own = (score != Value::Nil).then(|| own.into());
        }
        // A dead entry that can be granted costs one claim at most; any other would stay for ever.
        if let Some(head) = seen.head.as_ref().filter(|it| !is_exclusive(it))
            && !self.beats(connection, &heartbeats, head, until).await?
        {
            seen.lapsed.push(head.clone());
        }
        if with_record || seen.head.as_ref().is_some_and(|head| runs_once(head)) {
            seen.record = self.watch_record(connection, keys, time, until).await?;
        }
        Ok(seen)
    }

    async fn watch_record(
        &self,
        connection: &mut CheckedOut<'_>,
        keys: &LockKeys<'_>,
        time: u64,
        until: Instant,
    ) -> Result<Option<StoredRecord>, CommandError> {
        let record = keys.record();
        let mut commands = redis::pipe();
        commands.cmd("WATCH").arg(&record);
        commands.add_command(self.reads().get(&record));
        commands.cmd("PTTL").arg(&record);
        let (answers, _) = connection.watch(commands, until).await?;
        let [watched, text, left] = answers::exactly(answers)?;
        answers::refused(&watched)?;
        answers::refused_at_companion(&text)?;
        stored_record(&text, &left, time)
    }

    /// Whether the heartbeats have an entry.
    async fn beats(
        &self,
        connection: &mut CheckedOut<'_>,
        heartbeats: &str,
        entry: &[u8],
        until: Instant,
    ) -> Result<bool, CommandError> {
        let mut score = redis::pipe();
        score.cmd("ZSCORE").arg(heartbeats).arg(entry);
        let (answers, _) = connection.watch(score, until).await?;
        let [score] = answers::exactly(answers)?;
        answers::refused_at_companion(&score)?;
        Ok(!matches!(score, Value::Nil | Value::ServerError(_)))
    }
}

pub(super) fn unsettled() -> CommandError {
    let why = "others changed the key or its queue in each attempt";
    CommandError::Unsent(Reason::new(why))
}

/// The entries of a queue, or of its heartbeats.
fn members(answer: &Value) -> Result<Vec<Vec<u8>>, CommandError> {
    answers::refused_at_companion(answer)?;
    match answer {
        Value::ServerError(_) => Ok(Vec::new()),
        answer => answers::members(answer),
    }
}

/// A counter that can't be counted up does no harm: the epoch is the server's time then.
fn ignoring_the_counter(item: &Value) -> Result<(), CommandError> {
    match answers::refused(item) {
        Err(CommandError::Refused(..)) | Ok(()) => Ok(()),
        other => other,
    }
}
