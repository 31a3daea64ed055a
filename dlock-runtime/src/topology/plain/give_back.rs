//! Gives a lock back: the key is deleted, kept, or given to the first entry of its queue. What is read
//! under `WATCH` is a window for the server's machine (`rules`), and its difference a
//! transaction.
//!
//! Invariant: a key is changed only if it has the expected value when the transaction is executed;
//! an entry is granted only if it stands in the queue then.

use std::sync::Arc;
use std::time::Duration;

use redis::{Pipeline, Value};
use tokio::time::Instant;

use super::answers::{self, KeyContent};
use super::{PlainLink, checkout::CheckedOut, micros};
use crate::link::command_error::CommandError;
use crate::link::redis::names::LockKeys;
use crate::link::redis::reply;
use crate::rules::commands::{Cancelled, Claim, Keep, PushedGrant};
use crate::rules::queue;
use crate::rules::window::{StoredChange, StoredHolders, StoredQueue, StoredWaiter, Window};
use crate::rules::{Publish, Reached};
use crate::values::entry::{self, Letter};
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
    pub(super) pttl: i64,
    /// The first entry of the queue.
    pub(super) head: Option<Vec<u8>>,
    /// Entries without a sign of life.
    pub(super) lapsed: Vec<Vec<u8>>,
    /// Entries with one from the future: the server's clock was set back since.
    pub(super) ahead: Vec<Vec<u8>>,
    /// The server's time, in µs.
    pub(super) time: u64,
}

/// What is to be written, and what that means.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) found: bool,
    /// The lock is granted, so an epoch is drawn.
    pub(super) is_granted: bool,
    /// Entries leave the queue first, and the rest is decided anew.
    pub(super) again: bool,
    pub(super) changes: Vec<StoredChange>,
}

impl SeenKey {
    /// Runs the machine on what was seen. `value`: who gives the lock back; `None`: it is granted if
    /// nobody has it.
    pub(super) fn decide(&self, lock: &str, value: Option<&str>, keep: Keep) -> Decided {
        let time = self.time;
        let holders = match &self.held {
            KeyContent::Nothing => StoredHolders::Nobody,
            KeyContent::By(value) => StoredHolders::Value {
                value: value.as_str().into(),
                // A key that is there has not lapsed, although PTTL may say 0.
                ends: (u64::try_from(self.pttl).ok())
                    .map(|left| time.saturating_add(left.max(1).saturating_mul(1000))),
            },
            KeyContent::OtherType => return Decided::default(),
        };
        let key: Arc<str> = lock.into();
        let Some(mut window) = Window::load(&key, &holders, &self.queue(), time) else {
            return Decided::default();
        };
        let mut last_epoch = 0;
        let (found, again) = window.run(&mut last_epoch, time, &mut ByPolls, |it| {
            if let Some(value) = value {
                return it.release(&Claim::of_holder(&key, value), keep).found;
            }
            it.grant_next();
            false
        });
        let mut changes = window.difference();
        if again {
            // Not the lock, so that nobody takes it before the next one in turn.
            changes
                .retain(|it| matches!(it, StoredChange::Waiter(_) | StoredChange::WaiterGone(_)));
        }
        Decided {
            found,
            is_granted: last_epoch > 0,
            again,
            changes,
        }
    }

    /// The queue's head, and who can be removed or cut.
    fn queue(&self) -> StoredQueue {
        let waiter = |(at, entry): (u64, &Vec<u8>)| StoredWaiter {
            entry: name(entry).into(),
            arrival: at,
            alive_until: if self.lapsed.contains(entry) {
                1
            } else if self.ahead.contains(entry) {
                u64::MAX
            } else {
                self.time + 1
            },
        };
        let Some(head) = &self.head else {
            return StoredQueue::default(); // who is in the heartbeats alone does not wait
        };
        let others = self.lapsed.iter().chain(&self.ahead);
        let all = std::iter::once(head).chain(others.filter(|it| *it != head));
        StoredQueue {
            waiters: (0..).zip(all).map(waiter).collect(),
            read_to: Some(0),
        }
    }
}

/// How an entry is called in a window. One that only a script can grant to, or that is not text, has a
/// name that no machine can read: its waiters' polls grant to it.
fn name(entry: &[u8]) -> String {
    match std::str::from_utf8(entry) {
        Ok(text) if exclusive(entry) => text.to_owned(),
        _ => entry.iter().fold(String::from("?"), |name, byte| {
            name + &format!("{byte:02x}")
        }),
    }
}

fn exclusive(entry: &[u8]) -> bool {
    let entry = std::str::from_utf8(entry).ok().and_then(entry::read);
    entry.is_some_and(|it| it.letter == Letter::Exclusive)
}

/// A waiter finds its grant by its poll.
struct ByPolls;

impl Publish for ByPolls {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        Reached::Unknown
    }
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
            let decided = seen.decide(lock, value, keep);
            if decided.changes.is_empty() && !decided.again {
                connection.unwatch(until).await?;
                return Ok(decided.found);
            }
            let commands = transaction(&decided, &seen, lock, &keys);
            let executed = answers::executed(connection.end(commands, until).await?)?;
            if let Some(items) = executed {
                items.iter().try_for_each(ignoring_the_counter)?;
                if !decided.again {
                    return Ok(decided.found);
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
        let (value, pttl) = (next(), next());
        let held = answers::held_for(&value, &pttl)?;
        let Value::Int(pttl) = pttl else {
            return Err(reply::unexpected("PTTL", &pttl));
        };
        let time = self.heard(&next(), sent)?;
        connection.heard(time, sent); // by whose clock the next round asks
        let (mut first, mut lapsed, mut ahead) = (None, Vec::new(), Vec::new());
        if with_queue {
            first = members(&next())?.into_iter().next();
            lapsed = members(&next())?;
            ahead = members(&next())?;
        }
        // A dead entry that can be granted costs one claim at most; any other would stay for ever.
        if let Some(head) = first.as_ref().filter(|it| !exclusive(it))
            && !self.beats(connection, &heartbeats, head, until).await?
        {
            lapsed.push(head.clone());
        }
        Ok(SeenKey {
            held,
            pttl,
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

fn transaction(decided: &Decided, seen: &SeenKey, lock: &str, keys: &LockKeys<'_>) -> Pipeline {
    let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
    let all = || seen.head.iter().chain(&seen.lapsed).chain(&seen.ahead);
    let stored = |called: &str| all().find(|it| name(it) == called);
    let mut commands = redis::pipe();
    commands.cmd("MULTI");
    if decided.is_granted {
        let counter = &*keys.counter;
        commands.cmd("SET").arg(counter).arg(seen.time).arg("NX");
        commands.cmd("INCR").arg(counter);
    }
    let (mut gone, mut beaten) = (Vec::new(), Vec::new());
    for change in &decided.changes {
        match change {
            StoredChange::Free => {
                commands.cmd("DEL").arg(lock);
            }
            StoredChange::Value { value, ends } => {
                let left = ends.map_or(0, |ends| ends.saturating_sub(seen.time).div_ceil(1000));
                commands.cmd("SET").arg(lock).arg(&**value);
                commands.arg("PX").arg(left.max(1));
            }
            StoredChange::WaiterGone(entry) => gone.extend(stored(entry)),
            StoredChange::Waiter(waiter) => {
                let entry = stored(&waiter.entry);
                beaten.extend(entry.map(|entry| (waiter.alive_until, entry)));
            }
            StoredChange::Meta(_) | StoredChange::Holder { .. } | StoredChange::HolderGone(_) => {} // only scripts grant to sets
        }
    }
    if !gone.is_empty() {
        commands.cmd("ZREM").arg(&queue).arg(&gone);
        commands.cmd("ZREM").arg(&heartbeats).arg(&gone);
    }
    if !beaten.is_empty() {
        commands.cmd("ZADD").arg(&heartbeats).arg("XX").arg(&beaten);
    }
    commands.cmd("EXEC");
    commands
}
