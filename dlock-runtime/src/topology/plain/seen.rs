//! What was read of a key, as a window of the server's machine (`rules`), and the machine's difference
//! as a transaction. Pure.
//!
//! Invariant: it decides nothing itself. What an operation draws or writes is the machine's; only the
//! number of an epoch is the counter's.

use std::sync::Arc;

use redis::{Pipeline, Value};

use super::answers::{self, KeyContent};
use super::{key_lasts, micros};
use crate::link::command_error::CommandError;
use crate::link::redis::names::LockKeys;
use crate::rules::commands::{Busy, Left, PushedGrant};
use crate::rules::last_run::StoredRecord;
use crate::rules::operations::OnKey;
use crate::rules::queue;
use crate::rules::window::{StoredChange, StoredHolders, StoredQueue, StoredWaiter, Window};
use crate::rules::{Publish, Reached};
use crate::values::entry::{self, Letter};
use crate::values::error::{Reason, Refusal};

/// What an operation is decided by.
#[derive(Debug)]
pub(super) struct SeenKey {
    pub(super) held: KeyContent,
    pub(super) pttl: i64,
    /// The server's time, in µs.
    pub(super) time: u64,
    /// The first entry of the queue.
    pub(super) head: Option<Vec<u8>>,
    /// The entry of the caller in the queue; it has just shown a sign of life.
    pub(super) own: Option<Vec<u8>>,
    /// Others may wait besides these two.
    pub(super) others_wait: bool,
    /// Entries without a sign of life.
    pub(super) lapsed: Vec<Vec<u8>>,
    /// Entries with one from the future: the server's clock was set back since.
    pub(super) ahead: Vec<Vec<u8>>,
    /// The record of the last run, where an operation needs it.
    pub(super) record: Option<StoredRecord>,
}

/// What the machine answers, what is to be written, and what that means.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decided<T> {
    pub(super) answer: T,
    /// An epoch is drawn.
    pub(super) draws: bool,
    /// Entries leave the queue first, and the rest is decided anew.
    pub(super) again: bool,
    pub(super) changes: Vec<StoredChange>,
}

impl<T> Decided<T> {
    /// Whether the answer stands if nothing is written.
    pub(super) fn is_settled(&self) -> bool {
        self.changes.is_empty() && !self.again
    }
}

impl SeenKey {
    /// By the answers to the read of a lock and to `PTTL`; nobody waits for it.
    pub(super) fn of_lock(value: &Value, pttl: &Value, time: u64) -> Result<Self, CommandError> {
        Ok(Self {
            held: answers::held_for(value, pttl)?,
            pttl: answers::pttl(pttl)?,
            time,
            head: None,
            own: None,
            others_wait: false,
            lapsed: Vec::new(),
            ahead: Vec::new(),
            record: None,
        })
    }

    /// Runs an operation of the machine on what was seen.
    pub(super) fn decide<T>(
        &self,
        lock: &Arc<str>,
        run: impl FnOnce(&mut OnKey<'_>) -> T,
    ) -> Result<Decided<T>, CommandError> {
        let time = self.time;
        let window = Window::load(lock, &self.holders(), &self.queue(), time);
        let mut window = window.ok_or_else(|| {
            let why = "the set at the key is of another program";
            CommandError::Refused(Refusal::WrongType, Reason::new(why))
        })?;
        window = window.with_record(self.record.as_ref());
        let mut last_epoch = 0;
        let (answer, again) = window.run(&mut last_epoch, time, &mut ByPolls, run);
        let mut changes = window.difference();
        if again {
            // Not the lock, so that nobody takes it before the next one in turn.
            let is_of_lock =
                |it: &StoredChange| matches!(it, StoredChange::Free | StoredChange::Value { .. });
            changes.retain(|it| !is_of_lock(it));
        }
        Ok(Decided {
            answer,
            draws: last_epoch > 0,
            again,
            changes,
        })
    }

    fn holders(&self) -> StoredHolders {
        let Some(value) = self.value() else {
            return StoredHolders::Nobody;
        };
        // A key that is there has not lapsed, although PTTL may say 0.
        let left = u64::try_from(self.pttl).unwrap_or_default().max(1);
        let ends = self.time.saturating_add(left.saturating_mul(1000));
        StoredHolders::Value {
            value: value.into(),
            ends: (self.pttl != -1).then_some(ends),
        }
    }

    fn value(&self) -> Option<&str> {
        match &self.held {
            KeyContent::Nothing => None,
            KeyContent::By(value) => Some(value),
            KeyContent::OtherType => Some(""), // nobody's, and in everybody's way
        }
    }

    /// The transaction that writes what was decided.
    pub(super) fn transaction<T>(
        &self,
        decided: &Decided<T>,
        lock: &str,
        keys: &LockKeys<'_>,
    ) -> Pipeline {
        let (queue, heartbeats) = (keys.queue.text(), keys.heartbeats.text());
        let mut commands = redis::pipe();
        commands.cmd("MULTI");
        if decided.draws {
            let counter = &*keys.counter;
            commands.cmd("SET").arg(counter).arg(self.time).arg("NX");
            commands.cmd("INCR").arg(counter);
        }
        let (mut gone, mut beaten) = (Vec::new(), Vec::new());
        for change in &decided.changes {
            match change {
                StoredChange::Free => {
                    commands.cmd("DEL").arg(lock);
                }
                StoredChange::Value { value, ends } => {
                    let left = ends.map_or(0, |ends| ends.saturating_sub(self.time));
                    if self.value() == Some(value) {
                        commands.cmd("PEXPIRE").arg(lock);
                    } else {
                        commands.cmd("SET").arg(lock).arg(&**value).arg("PX");
                    }
                    commands.arg(left.div_ceil(1000).max(1));
                }
                StoredChange::WaiterGone(entry) => gone.extend(self.called(entry)),
                StoredChange::Waiter(waiter) => {
                    let entry = self.called(&waiter.entry);
                    beaten.extend(entry.map(|entry| (waiter.alive_until, entry)));
                }
                StoredChange::Record(Some(record)) => {
                    commands.cmd("SET").arg(keys.record()).arg(&*record.text);
                    let left = record
                        .expires
                        .map_or(1, |ends| ends.saturating_sub(self.time));
                    commands.arg("PX").arg(left.div_ceil(1000).max(1));
                }
                StoredChange::Record(None) => {
                    commands.cmd("DEL").arg(keys.record());
                }
                _ => {} // only scripts grant to sets
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

    fn queue(&self) -> StoredQueue {
        let (head, own) = (self.head.as_ref(), self.own.as_ref());
        let others = self.lapsed.iter().chain(&self.ahead);
        // Who is in the heartbeats alone does not wait.
        let others = others.filter(|it| self.others_wait && Some(*it) != own);
        let others = others.chain(own);
        let others = others.filter(|it| Some(*it) != head);
        let all = head.map(|it| (0, it)).into_iter().chain((1..).zip(others));
        let waiter = |(arrival, entry): (u64, &Vec<u8>)| StoredWaiter {
            entry: name(entry).into(),
            arrival,
            alive_until: if Some(entry) == own {
                self.time.saturating_add(micros(queue::HEARTBEAT))
            } else if self.lapsed.contains(entry) {
                1
            } else if self.ahead.contains(entry) {
                u64::MAX
            } else {
                self.time.saturating_add(1)
            },
        };
        StoredQueue {
            waiters: all.map(waiter).collect(),
            read_to: self.others_wait.then_some(0),
        }
    }

    /// The entry that has this name in a window.
    fn called(&self, called: &str) -> Option<&Vec<u8>> {
        let all = self.head.iter().chain(&self.own).chain(&self.lapsed);
        all.chain(&self.ahead).find(|it| name(it) == called)
    }
}

/// How an entry is called in a window. One that only a script can grant to, or that is not text, has a
/// name that no machine can read: its waiters' polls grant to it.
fn name(entry: &[u8]) -> String {
    match std::str::from_utf8(entry) {
        Ok(text) if is_exclusive(entry) => text.to_owned(),
        _ => entry.iter().fold(String::from("?"), |name, byte| {
            name + &format!("{byte:02x}")
        }),
    }
}

/// Whether an entry may have to leave because its job was run within its period.
pub(super) fn runs_once(entry: &[u8]) -> bool {
    let entry = std::str::from_utf8(entry).ok().and_then(entry::read);
    entry.is_some_and(|it| it.once_per.is_some())
}

pub(super) fn is_exclusive(entry: &[u8]) -> bool {
    let entry = std::str::from_utf8(entry).ok().and_then(entry::read);
    entry.is_some_and(|it| it.letter == Letter::Exclusive)
}

/// How long a holder may still count on the lock: a key of ours outlives its lease a little.
pub(super) fn within_lease(mut busy: Busy) -> Busy {
    if let (Left::For(left), Some(entry)) = (&mut busy.left, entry::read(&busy.value))
        && *left <= key_lasts(entry.lease)
    {
        *left = entry.lease.min(*left);
    }
    busy
}

/// A waiter finds its grant by its poll.
struct ByPolls;

impl Publish for ByPolls {
    fn publish(&mut self, _: &str, _: &PushedGrant) -> Reached {
        Reached::Unknown
    }
}
