//! One key's state as the row of a table and the rows of its waiters, and back: what a store of rows reads
//! before a command, and what it must write behind it if the row's version is still the one it read.
//!
//! Invariants: what can't be read is an error, never a free lock; a command is decided by windows of the
//! queues, and run again on whole ones if they say that there is more; only a grant makes somebody a
//! holder who was none before.

use std::fmt::Write as _;
use std::sync::Arc;

use super::Server;
use super::key_state::KeyState;
use super::last_run::StoredRecord;
use super::lock::{Held, Lock};
use super::micros;
use super::set::{Meta, Set};
use super::wait_queue::{QueuedEntry, WaitQueue};
use super::window::{StoredQueue, StoredWaiter};
use crate::rules::queue;
use crate::values::entry::{self, Letter, META};

/// For how long a row that an open transaction keeps from being granted counts as held.
const KEPT_FOR: u64 = 100_000;

/// The columns of a key's row. Times are the server's, in µs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockRow {
    /// The exclusive holder's entry, or what the holders of a set have in common; empty: nobody.
    pub(crate) holder: String,
    /// Of a set, when its last holder ends; `i64::MAX`: never.
    pub(crate) ends: i64,
    /// The last epoch that was drawn for this key.
    pub(crate) epoch: i64,
    /// The epoch of a holder who is alone.
    pub(crate) sole: Option<i64>,
    /// The holders of a set, a line for each.
    pub(crate) members: String,
    /// The queue may have entries.
    pub(crate) waiting: bool,
    /// Of the last run of a job that runs once per period; empty: there is none.
    pub(crate) record: String,
    pub(crate) record_ends: i64,
}

/// What was read of one key.
#[derive(Clone, Debug)]
pub(crate) struct SeenRow {
    pub(crate) key: Arc<str>,
    /// 0: there is no row.
    pub(crate) version: i64,
    pub(crate) row: LockRow,
    pub(crate) queue: StoredQueue,
    /// A transaction of the user's keeps the row: nobody can be granted the lock.
    pub(crate) is_kept: bool,
}

/// What must be written of one key.
#[derive(Clone, Debug)]
pub(crate) struct RowChange {
    pub(crate) key: Arc<str>,
    /// The version that must still be there.
    pub(crate) version: i64,
    /// And the epoch.
    pub(crate) epoch: i64,
    /// `None`: only waiters showed a sign of life.
    pub(crate) row: Option<LockRow>,
    /// Somebody holds the lock who did not before.
    pub(crate) is_grant: bool,
    /// Waiters came, which nobody relies on after a crash, and an epoch was drawn, so that the row never comes
    /// to this version and epoch again.
    pub(crate) may_be_lost: bool,
    /// The arrivals of waiters that left: one that lapsed may have come again with the same entry.
    pub(crate) gone: Vec<u64>,
    /// Waiters that are new, or were heard.
    pub(crate) waiters: Vec<StoredWaiter>,
}

/// A row that another program wrote, or a later version; which column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnreadableRow(pub(crate) &'static str);

/// The rows of a command, as the machine sees them.
#[derive(Debug)]
pub(crate) struct LoadedRows {
    server: Server,
    keys: Vec<LoadedKey>,
}

#[derive(Debug)]
struct LoadedKey {
    seen: SeenRow,
    before: KeyState,
}

impl LoadedRows {
    /// `own`: the entries of the command's own claims.
    pub(crate) fn load(seen: Vec<SeenRow>, own: &[&str], time: u64) -> Result<Self, UnreadableRow> {
        let mut server = Server::default();
        let mut keys = Vec::new();
        for seen in seen {
            let epoch = unsigned(seen.row.epoch, "epoch")?;
            let mut before = seen.state(own, time)?;
            before.tidy_at(epoch, time);
            server.last_epoch = server.last_epoch.max(epoch);
            server.keys.insert(seen.key.clone(), before.clone());
            keys.push(LoadedKey { seen, before });
        }
        Ok(Self { server, keys })
    }

    /// Runs a command. Returns its answer, and whether it must be run again on whole queues.
    pub(crate) fn run<T>(&mut self, command: impl FnOnce(&mut Server) -> T) -> (T, bool) {
        let answer = command(&mut self.server);
        (answer, self.server.more)
    }

    /// Lists what must be written. `told`: the epochs that the answer tells its claims, with their keys.
    pub(crate) fn changes(&self, told: &[(&str, u64)]) -> Vec<RowChange> {
        let changes = self.keys.iter().filter_map(|it| {
            let told = told.iter().find(|(key, _)| *key == &*it.seen.key);
            it.change(&self.server, told.map(|(_, epoch)| *epoch))
        });
        changes.collect()
    }
}

impl SeenRow {
    fn state(&self, own: &[&str], time: u64) -> Result<KeyState, UnreadableRow> {
        let mut lock = self.row.lock()?;
        let (mut waiters, mut read_to) = (&*self.queue.waiters, self.queue.read_to);
        let only_own: Vec<_>;
        if self.is_kept {
            let holds = |lock: &Lock| own.iter().any(|it| lock.holds(it));
            let is_held = |lock: &mut Lock| matches!(lock, Lock::One(_)) && lock.drop_lapsed(time);
            if !lock.as_ref().is_some_and(holds) && !lock.as_mut().is_some_and(is_held) {
                let expires = Some(time + KEPT_FOR);
                let value = Arc::from(entry::KEPT);
                let epoch = None;
                lock = Some(Lock::One(Held {
                    value,
                    expires,
                    epoch,
                }));
            }
            let is_own = |it: &&StoredWaiter| own.contains(&&*it.entry);
            only_own = waiters.iter().filter(is_own).cloned().collect();
            (waiters, read_to) = (&only_own, None);
        }
        let entries = waiters.iter().map(QueuedEntry::load).collect();
        let lapses = time.saturating_add(micros(queue::QUEUE_TTL));
        let record = match &*self.row.record {
            "" => None,
            text => Some(StoredRecord {
                text: text.into(),
                expires: end(self.row.record_ends, "record_ends")?,
            }),
        };
        Ok(KeyState {
            lock,
            queue: WaitQueue::load(entries, read_to, lapses),
            record,
            ..KeyState::default()
        })
    }
}

impl LoadedKey {
    fn change(&self, server: &Server, told: Option<u64>) -> Option<RowChange> {
        let (nothing, before) = (KeyState::default(), &self.before);
        let after = server.keys.get(&self.seen.key).unwrap_or(&nothing);
        let (old, new) = (before.queue.all(), after.queue.all());
        let stays = |it: &QueuedEntry| new.iter().any(|at| at.arrival() == it.arrival());
        let gone = old.iter().filter(|it| !stays(it));
        let gone: Vec<_> = gone.map(QueuedEntry::arrival).collect();
        let heard = new.iter().filter(|it| !old.contains(it));
        let waiters: Vec<_> = heard.map(QueuedEntry::stored).collect();
        let is_new = |it: &StoredWaiter| old.iter().all(|at| at.arrival() != it.arrival);
        // Whoever was granted the lock out of the queue is told the epoch that is there.
        let is_of_queue = told.is_none_or(|it| self.seen.row.sole == Some(signed(it)))
            && before.lock == after.lock
            && before.record == after.record;
        let has_changed = !is_of_queue || !gone.is_empty() || waiters.iter().any(is_new);
        if !has_changed && waiters.is_empty() {
            return None;
        }
        Some(RowChange {
            key: self.seen.key.clone(),
            version: self.seen.version,
            epoch: self.seen.row.epoch,
            row: has_changed.then(|| self.row(after, server.last_epoch, told)),
            is_grant: is_grant(before.lock.as_ref(), after.lock.as_ref()),
            may_be_lost: is_of_queue && signed(server.last_epoch) > self.seen.row.epoch,
            gone,
            waiters,
        })
    }

    fn row(&self, after: &KeyState, last_epoch: u64, told: Option<u64>) -> LockRow {
        let mut row = self.seen.row.clone();
        row.epoch = signed(last_epoch).max(row.epoch);
        row.waiting = !after.queue.is_empty() || (self.seen.is_kept && row.waiting);
        if self.before.lock != after.lock {
            row.set_lock(after.lock.as_ref());
            // The epoch of a grant out of the queue was the last one to be drawn.
            let is_same = is_same_holder(self.before.lock.as_ref(), after.lock.as_ref());
            let epoch = if is_same { row.sole } else { Some(row.epoch) };
            row.sole = sole(after.lock.as_ref(), epoch);
        }
        if let Some(told) = told {
            row.sole = sole(after.lock.as_ref(), Some(signed(told)));
        }
        let record = after.record.as_ref();
        row.record = record.map_or_else(String::new, |it| it.text.to_string());
        row.record_ends = record.map_or(0, |it| it.expires.map_or(i64::MAX, signed));
        row
    }
}

impl LockRow {
    fn lock(&self) -> Result<Option<Lock>, UnreadableRow> {
        if self.holder.is_empty() {
            return Ok(None);
        }
        if !self.holder.starts_with(META) {
            return Ok(Some(Lock::One(Held {
                value: self.holder.as_str().into(),
                expires: end(self.ends, "ends")?,
                epoch: self.sole.map(i64::unsigned_abs),
            })));
        }
        let members = members(&self.members).ok_or(UnreadableRow("members"))?;
        let set = Set::load(&self.holder, &members).ok_or(UnreadableRow("holder"))?;
        Ok(Some(Lock::Many(set)))
    }

    fn set_lock(&mut self, lock: Option<&Lock>) {
        (self.holder, self.ends, self.members) = (String::new(), 0, String::new());
        match lock {
            None => {}
            Some(Lock::One(held)) => {
                self.holder = held.value.to_string();
                self.ends = held.expires.map_or(i64::MAX, signed);
            }
            Some(Lock::Many(set)) => {
                self.holder = set.to_string();
                for (entry, end) in set.by_end() {
                    self.ends = self.ends.max(signed(end));
                    // With its length, since no entry is trusted to be one line.
                    let _ = writeln!(self.members, "{end} {} {entry}", entry.len());
                }
            }
        }
    }
}

/// The lines of [`LockRow::members`].
fn members(mut text: &str) -> Option<Vec<(Arc<str>, u64)>> {
    let mut members = Vec::new();
    while !text.is_empty() {
        let (end, rest) = text.split_once(' ')?;
        let (length, rest) = rest.split_once(' ')?;
        let (entry, rest) = rest.split_at_checked(length.parse().ok()?)?;
        let end = i64::try_from(end.parse::<u64>().ok()?).ok()?;
        members.push((entry.into(), end.unsigned_abs()));
        text = rest.strip_prefix('\n')?;
    }
    Some(members)
}

/// The epoch of a holder beside whom nobody can be, if this one is it.
fn sole(lock: Option<&Lock>, epoch: Option<i64>) -> Option<i64> {
    let is_alone = |entry: &str| {
        let letter = entry::letter_of(entry).filter(|_| !entry::is_retired(entry));
        matches!(letter, Some(Letter::Exclusive | Letter::Writer))
    };
    match lock? {
        Lock::One(held) => epoch.filter(|_| is_alone(&held.value)),
        Lock::Many(set) if set.count() == 0 => None,
        Lock::Many(set) => match set.meta {
            Meta::Owner { epoch, .. } => Some(signed(epoch)),
            Meta::Permits => None,
            Meta::ReadWrite => epoch.filter(|_| set.named().is_some_and(|it| is_alone(&it))),
        },
    }
}

/// Whether the lock has the same holder, whose lease was extended at most.
fn is_same_holder(before: Option<&Lock>, after: Option<&Lock>) -> bool {
    !is_grant(before, after) && before.is_some() && after.is_some()
}

/// Whether somebody holds the lock who did not before; not an owner, who enters its own hold again.
fn is_grant(before: Option<&Lock>, after: Option<&Lock>) -> bool {
    match (before, after) {
        (_, None) => false,
        (before, Some(Lock::One(held))) => {
            let is_same = before.is_some_and(|it| it.holds(&held.value));
            !is_same && !entry::is_retired(&held.value)
        }
        (before, Some(Lock::Many(set))) => {
            let old = match before {
                Some(Lock::Many(old)) => Some(old),
                _ => None,
            };
            let hold = set.meta.epoch();
            if hold.is_some() && old.is_some_and(|it| it.meta.epoch() == hold) {
                return false;
            }
            let is_new = |it: &Arc<str>| old.is_none_or(|old| old.end_of(it).is_none());
            let mut entries = set.by_end().into_iter();
            entries.any(|(it, _)| is_new(&it) && !entry::is_retired(&it))
        }
    }
}

fn unsigned(number: i64, column: &'static str) -> Result<u64, UnreadableRow> {
    u64::try_from(number).map_err(|_| UnreadableRow(column))
}

fn end(number: i64, column: &'static str) -> Result<Option<u64>, UnreadableRow> {
    let end = unsigned(number, column)?;
    Ok(Some(end).filter(|_| number < i64::MAX))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
