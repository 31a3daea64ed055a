//! One key's state from outside: what a store reads of it before an operation, and what it must write
//! behind it. So a store needs no rule of its own.
//!
//! A window has the holders, and of the queue some entries from the head on, those that have lapsed (at
//! most [`ENTRIES_AT_ONCE`](crate::rules::queue::ENTRIES_AT_ONCE)) and the caller's own, so that no
//! operation grows with the queue. Invariant: an operation on a window decides nothing by what is not in
//! it; it says that there is more instead, and is run again on the next window.

use std::sync::Arc;

use super::key_state::KeyState;
use super::last_run::StoredRecord;
use super::lock::{Held, Lock};
use super::operations::OnKey;
use super::set::Set;
use super::wait_queue::{QueuedEntry, WaitQueue};
use super::{Publish, micros};
use crate::rules::queue;

/// What was read of a key, and what an operation has made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    key: Arc<str>,
    loaded: KeyState,
    state: KeyState,
}

/// Who holds a lock, as it is stored. Times are the server's, in µs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredHolders {
    Nobody,
    /// `ends`: `None` if it has no time to live.
    Value {
        value: Arc<str>,
        ends: Option<u64>,
    },
    /// The meta, and each entry with its end.
    #[cfg_attr(
        not(test),
        allow(dead_code, reason = "without scripts there are no sets")
    )]
    Set {
        meta: String,
        entries: Vec<(Arc<str>, u64)>,
    },
}

/// A waiter, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredWaiter {
    pub(crate) entry: Arc<str>,
    pub(crate) arrival: u64,
    /// 0: the heartbeats don't have it.
    pub(crate) alive_until: u64,
}

/// What of a queue was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredQueue {
    /// In order of arrival.
    pub(crate) waiters: Vec<StoredWaiter>,
    /// All that came until then were read; `None`: all.
    pub(crate) read_to: Option<u64>,
}

/// One change of what is stored, in the order in which they must be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoredChange {
    /// Nobody holds the lock any more.
    Free,
    /// This value holds it now, until then.
    Value {
        value: Arc<str>,
        ends: Option<u64>,
    },
    /// What the holders of a set have in common.
    Meta(String),
    /// A holder of a set that is new, or ends at another time.
    Holder {
        entry: Arc<str>,
        ends: u64,
    },
    HolderGone(Arc<str>),
    Waiter(StoredWaiter),
    WaiterGone(Arc<str>),
    /// The record of the last run; `None`: there is none any more.
    Record(Option<StoredRecord>),
}

impl Window {
    /// `None`: the set is none of ours.
    pub(crate) fn load(
        key: &Arc<str>,
        holders: &StoredHolders,
        queue: &StoredQueue,
        time: u64,
    ) -> Option<Self> {
        let lock = match holders {
            StoredHolders::Nobody => None,
            StoredHolders::Value { value, ends } => Some(Lock::One(Held {
                value: value.clone(),
                expires: *ends,
                epoch: None,
            })),
            StoredHolders::Set { meta, entries } => Some(Lock::Many(Set::load(meta, entries)?)),
        };
        let entries = queue.waiters.iter().map(QueuedEntry::load).collect();
        let lapses = time.saturating_add(micros(queue::QUEUE_TTL));
        let state = KeyState {
            lock,
            queue: WaitQueue::load(entries, queue.read_to, lapses),
            ..KeyState::default()
        };
        Some(Self {
            key: key.clone(),
            loaded: state.clone(),
            state,
        })
    }

    /// The same, and this is the record of the last run.
    pub(crate) fn with_record(mut self, record: Option<&StoredRecord>) -> Self {
        for state in [&mut self.loaded, &mut self.state] {
            state.record = record.cloned();
        }
        self
    }

    /// Runs an operation. Returns its answer, and whether it must be run again on the next window:
    /// the answer counts only if it says that a claim was found, or holds the lock.
    pub(crate) fn run<T>(
        &mut self,
        last_epoch: &mut u64,
        time: u64,
        publish: &mut dyn Publish,
        run: impl FnOnce(&mut OnKey<'_>) -> T,
    ) -> (T, bool) {
        self.state.tidy_at(*last_epoch, time);
        let mut on_key = OnKey {
            key: &self.key,
            state: &mut self.state,
            last_epoch,
            claim: queue::CLAIM,
            time,
            publish,
            more: false,
        };
        let answer = run(&mut on_key);
        (answer, on_key.more)
    }

    /// Lists what must be written.
    pub(crate) fn difference(&self) -> Vec<StoredChange> {
        let mut changes = Vec::new();
        holders_changed(
            self.loaded.lock.as_ref(),
            self.state.lock.as_ref(),
            &mut changes,
        );
        let (before, after) = (self.loaded.queue.all(), self.state.queue.all());
        let gone = before.iter().filter(|it| !self.state.queue.has(&it.entry));
        changes.extend(gone.map(|it| StoredChange::WaiterGone(it.entry.clone())));
        let new = after.iter().filter(|it| !before.contains(it));
        changes.extend(new.map(|it| StoredChange::Waiter(it.stored())));
        if self.loaded.record != self.state.record {
            changes.push(StoredChange::Record(self.state.record.clone()));
        }
        changes
    }
}

fn holders_changed(before: Option<&Lock>, after: Option<&Lock>, changes: &mut Vec<StoredChange>) {
    match (before, after) {
        (None, None) => {}
        (Some(_), None) => changes.push(StoredChange::Free),
        (Some(Lock::One(before)), Some(Lock::One(after))) if before == after => {}
        (_, Some(Lock::One(held))) => changes.push(StoredChange::Value {
            value: held.value.clone(),
            ends: held.expires,
        }),
        (before, Some(Lock::Many(after))) => {
            let before = match before {
                Some(Lock::Many(before)) => Some(before),
                Some(Lock::One(_)) => {
                    changes.push(StoredChange::Free);
                    None
                }
                None => None,
            };
            if before.is_none_or(|it| it.to_string() != after.to_string()) {
                changes.push(StoredChange::Meta(after.to_string()));
            }
            let old = before.map(Set::by_end).unwrap_or_default();
            let new = after.by_end();
            let gone = old.iter().filter(|(it, _)| after.end_of(it).is_none());
            changes.extend(gone.map(|(it, _)| StoredChange::HolderGone(it.clone())));
            let come = new.into_iter().filter(|it| !old.contains(it));
            changes.extend(come.map(|(entry, ends)| StoredChange::Holder { entry, ends }));
        }
    }
}
