//! Gives a lock back: the key is deleted, kept, or given to the first entry of its queue, in a
//! transaction that watches key and queue.
//!
//! Invariant: a key is changed only if it has the expected value when the transaction is executed;
//! an entry is granted only if it stands in the queue then.

use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::acquire::millis;
use super::answers::{self, KeyContent};
use super::{PlainLink, checkout::CheckedOut, micros};
use crate::backend::command_error::CommandError;
use crate::backend::redis::names::LockKeys;
use crate::backend::redis::reply;
use crate::policy::commands::{Cancelled, Claim, Keep};
use crate::policy::queue;
use crate::values::entry::{self, Entry, Letter};
use crate::values::error::Reason;

/// After so many transactions that others' heartbeats broke, the queue is not watched any more: the
/// lock is deleted, and a poll grants it.
const WITH_QUEUE: u32 = 8;

/// Our estimate of the server's time may be too early by this much, if its clock was not set.
const EARLY_BY_AT_MOST: Duration = Duration::from_secs(1);

/// What a transaction is decided by.
#[derive(Debug)]
pub(super) struct SeenKey {
    pub(super) held: KeyContent,
    /// The first entry of the queue.
    pub(super) head: Option<Vec<u8>>,
    /// Entries without a sign of life.
    pub(super) lapsed: Vec<Vec<u8>>,
    /// Entries with one from the future: the server's clock was set back since.
    pub(super) ahead: Vec<Vec<u8>>,
    /// The server's time, in µs.
    pub(super) time: u64,
}

/// What to do with a lock.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Then<'a> {
    /// Nothing.
    Leave,
    Delete,
    /// It stays as a retired value for so many ms.
    Keep(u64),
    /// This entry gets it for its claim, in ms.
    Grant(&'a [u8], u64),
    /// These entries leave the queue first.
    Sweep(&'a [Vec<u8>]),
    /// These count as having shown a sign of life now, rather than for as long as the step.
    Beat(&'a [Vec<u8>]),
}

impl SeenKey {
    /// `value`: who gives the lock back; `None`: it is granted if nobody has it.
    pub(super) fn then(&self, value: Option<&str>, keep: Keep) -> Then<'_> {
        let is_ours = value.is_some_and(|value| self.held.is(value));
        if !is_ours && self.held != KeyContent::Nothing {
            return Then::Leave;
        }
        if let (true, Some(left)) = (is_ours, keep.left(self.time)) {
            return Then::Keep(left.div_ceil(1000));
        }
        let otherwise = if is_ours { Then::Delete } else { Then::Leave };
        let Some(head) = &self.head else {
            return otherwise;
        };
        if self.lapsed.contains(head) {
            return Then::Sweep(&self.lapsed);
        }
        if self.ahead.contains(head) {
            return Then::Beat(&self.ahead);
        }
        match exclusive(head) {
            Some(entry) => Then::Grant(head, millis(entry.lease.min(queue::CLAIM))),
            None => otherwise, // only a script can grant another kind: its waiters' polls do
        }
    }
}

fn exclusive(head: &[u8]) -> Option<Entry<'_>> {
    let entry = entry::read(std::str::from_utf8(head).ok()?)?;
    (entry.letter == Letter::Exclusive).then_some(entry)
}

impl PlainLink {
    /// Gives the lock of `value` back; with `None`, grants a free lock. Returns whether the value
    /// held it.
    pub(super) async fn give_back(
        &self,
        lock: &str,
        value: Option<&str>,
        keep: Keep,
        until: Instant,
    ) -> Result<bool, CommandError> {
        let keys = self.link.connection.names.of(lock);
        let mut connection = self.checkouts.check_out(&self.plan, until).await?;
        let mut round = 0;
        while Instant::now() < until {
            round += 1;
            let seen = self
                .watch(&mut connection, lock, &keys, round <= WITH_QUEUE, until)
                .await?;
            let then = seen.then(value, keep);
            if then == Then::Leave {
                connection.unwatch(until).await?;
                return Ok(false);
            }
            let is_swept = matches!(then, Then::Sweep(_) | Then::Beat(_));
            let commands = transaction(&then, lock, &keys, value.unwrap_or_default(), seen.time);
            let executed = answers::executed(connection.end(commands, until).await?)?;
            if let Some(items) = executed {
                items.iter().try_for_each(ignoring_the_counter)?;
                if !is_swept {
                    return Ok(value.is_some_and(|value| seen.held.is(value)));
                }
            }
        }
        let why = "others changed the key or its queue in each attempt";
        Err(CommandError::Unsent(Reason::new(why)))
    }

    async fn watch(
        &self,
        connection: &mut CheckedOut<'_>,
        lock: &str,
        keys: &LockKeys<'_>,
        with_queue: bool,
        until: Instant,
    ) -> Result<SeenKey, CommandError> {
        let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
        let mut commands = redis::pipe();
        commands.cmd("WATCH").arg(lock);
        if with_queue {
            commands.arg(&queue);
        }
        commands.add_command(self.reads().get(lock));
        commands.cmd("PTTL").arg(lock).cmd("TIME");
        if with_queue {
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
        let (answers, sent) = connection.watch(commands, until).await?;
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(Value::Nil);
        answers::refused(&next())?;
        let held = answers::held_for(&next(), &next())?;
        let time = self.heard(&next(), sent)?;
        connection.heard(time, sent); // by whose clock the next round asks
        let (mut first, mut lapsed, mut ahead) = (None, Vec::new(), Vec::new());
        if with_queue {
            first = members(&next())?.into_iter().next();
            lapsed = members(&next())?;
            ahead = members(&next())?;
        }
        // A dead entry that can be granted costs one claim at most; any other would stay for ever.
        if let Some(head) = first.as_ref().filter(|it| exclusive(it).is_none())
            && !self.beats(connection, &heartbeats, head, until).await?
        {
            lapsed.push(head.clone());
        }
        Ok(SeenKey {
            held,
            head: first,
            lapsed,
            ahead,
            time,
        })
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

    /// By the server's own command where it has one, else by a transaction.
    pub(super) async fn release_claim(
        &self,
        claim: &Claim,
        keep: Keep,
        until: Instant,
    ) -> Result<bool, CommandError> {
        let connection = &self.link.connection;
        if let (Some(native), Keep::NOT) = (connection.deletes.native(), keep) {
            let keys = connection.names.of(&claim.key);
            let mut commands = redis::pipe();
            commands.add_command(native.deletes(&claim.key, &claim.value));
            commands.cmd("ZCARD").arg(keys.queue.text());
            let ([deleted, waiting], _) = self.exchange(commands, until).await?;
            match answers::refused(&deleted) {
                Ok(()) if reply::number(&deleted) == Some(0) => return Ok(false),
                Ok(()) => {
                    if reply::number(&waiting) != Some(0) {
                        // If this fails, a poll grants the lock.
                        let _ = self.give_back(&claim.key, None, Keep::NOT, until).await;
                    }
                    return Ok(true);
                }
                Err(CommandError::Refused(..)) => connection.deletes.was_refused(),
                Err(other) => return Err(other),
            }
        }
        self.give_back(&claim.key, Some(&claim.value), keep, until)
            .await
    }

    /// First on the shared connection, behind an acquire that was sent there, which has been
    /// executed when this is answered.
    pub(super) async fn cancel_claim(
        &self,
        claim: &Claim,
        keep: Keep,
        not_after: u64,
        until: Instant,
    ) -> Result<Cancelled, CommandError> {
        let keys = self.link.connection.names.of(&claim.key);
        let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
        let mut leave = redis::pipe();
        leave.cmd("ZREM").arg(&queue).arg(&*claim.value);
        leave.cmd("ZREM").arg(&heartbeats).arg(&*claim.value);
        leave.cmd("ZCARD").arg(&queue);
        leave.add_command(self.reads().get(&claim.key));
        leave.cmd("PTTL").arg(&*claim.key).cmd("TIME");
        let answers = self.exchange(leave, until).await?;
        let ([left, beat, waiting, value, pttl, time], sent) = answers;
        for answer in [&left, &beat, &waiting] {
            answers::refused_at_companion(answer)?;
        }
        let time = self.heard(&time, sent)?;
        let mut found = reply::number(&left) == Some(1);
        let held = answers::held_for(&value, &pttl)?;
        if held.is(&claim.value) {
            let value = Some(&*claim.value);
            found |= self.give_back(&claim.key, value, keep, until).await?;
        } else if held == KeyContent::Nothing && reply::number(&waiting) != Some(0) {
            self.give_back(&claim.key, None, Keep::NOT, until).await?;
        }
        Ok(Cancelled {
            time,
            found,
            conclusive: found || time > not_after,
            rest: 0,
        })
    }
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

fn transaction(
    then: &Then<'_>,
    lock: &str,
    keys: &LockKeys<'_>,
    value: &str,
    time: u64,
) -> Pipeline {
    let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
    let mut commands = redis::pipe();
    commands.cmd("MULTI");
    match then {
        Then::Leave => {}
        Then::Delete => {
            commands.cmd("DEL").arg(lock);
        }
        Then::Keep(left) => {
            commands.cmd("SET").arg(lock).arg(entry::retired(value));
            commands.arg("PX").arg(*left);
        }
        Then::Grant(head, claim) => {
            commands.cmd("SET").arg(&*keys.counter).arg(time).arg("NX");
            commands.cmd("INCR").arg(&*keys.counter);
            commands.cmd("SET").arg(lock).arg(*head);
            commands.arg("PX").arg(*claim);
            commands.cmd("ZREM").arg(&queue).arg(*head);
            commands.cmd("ZREM").arg(&heartbeats).arg(*head);
        }
        Then::Sweep(lapsed) => {
            commands.cmd("ZREM").arg(&queue).arg(*lapsed);
            commands.cmd("ZREM").arg(&heartbeats).arg(*lapsed);
        }
        Then::Beat(ahead) => {
            let alive = time.saturating_add(micros(queue::HEARTBEAT));
            commands.cmd("ZADD").arg(&heartbeats).arg("XX");
            for entry in *ahead {
                commands.arg(alive).arg(entry);
            }
        }
    }
    commands.cmd("EXEC");
    commands
}
