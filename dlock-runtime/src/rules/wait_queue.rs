//! The queue of one key: on a real server, the sorted sets `queue` (in order of arrival) and
//! `heartbeats`, which lapse together.
//!
//! It does not decide who is granted (`grant`). Invariant: an entry stands at most once in the
//! queue, at the position where it first came.

use std::sync::Arc;

use super::micros;
use super::window::StoredWaiter;
use crate::rules::queue::{ENTRIES_AT_ONCE, HEARTBEAT, QUEUE_TTL};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WaitQueue {
    /// In order of arrival.
    entries: Vec<QueuedEntry>,
    /// 0 if it is empty.
    expires: u64,
    /// Set in a window: all entries that arrived until then are here, and perhaps some of the later
    /// ones.
    read_to: Option<u64>,
}

/// Who stands first.
#[derive(Debug)]
pub(super) enum QueueHead<'a> {
    Nobody,
    Entry(&'a QueuedEntry),
    /// An entry that the window does not have.
    Unseen,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct QueuedEntry {
    pub(super) entry: Arc<str>,
    arrival: u64,
    /// 0: the heartbeats don't have it, so a stranger wrote it, or they were lost.
    alive_until: u64,
}

impl QueuedEntry {
    pub(super) fn arrival(&self) -> u64 {
        self.arrival
    }

    pub(super) fn load(stored: &StoredWaiter) -> Self {
        Self {
            entry: stored.entry.clone(),
            arrival: stored.arrival,
            alive_until: stored.alive_until,
        }
    }

    pub(super) fn stored(&self) -> StoredWaiter {
        StoredWaiter {
            entry: self.entry.clone(),
            arrival: self.arrival,
            alive_until: self.alive_until,
        }
    }

    pub(super) fn alive_until(&self) -> u64 {
        self.alive_until
    }

    pub(super) fn is_alive(&self, time: u64) -> bool {
        self.alive_until > time
    }
}

impl WaitQueue {
    /// A window of a queue that lapses then.
    pub(super) fn load(entries: Vec<QueuedEntry>, read_to: Option<u64>, expires: u64) -> Self {
        let is_empty = entries.is_empty() && read_to.is_none();
        Self {
            entries,
            expires: if is_empty { 0 } else { expires },
            read_to,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.read_to.is_none()
    }

    pub(super) fn has(&self, entry: &str) -> bool {
        self.entries.iter().any(|waiting| *waiting.entry == *entry)
    }

    pub(super) fn first(&self) -> QueueHead<'_> {
        match (self.entries.first(), self.read_to) {
            (Some(first), None) => QueueHead::Entry(first),
            (Some(first), Some(read_to)) if first.arrival <= read_to => QueueHead::Entry(first),
            (None, None) => QueueHead::Nobody,
            (_, Some(_)) => QueueHead::Unseen,
        }
    }

    /// All entries, in order.
    pub(super) fn all(&self) -> &[QueuedEntry] {
        &self.entries
    }

    /// Adds an entry behind all others, or leaves it where it is; either way it is alive now.
    pub(super) fn enter(&mut self, entry: &Arc<str>, arrival: u64, time: u64) {
        self.enter_silently(entry, arrival, time);
        self.beat(entry, time);
    }

    /// The same without a sign of life.
    pub(super) fn enter_silently(&mut self, entry: &Arc<str>, arrival: u64, time: u64) {
        if !self.has(entry) {
            let behind = |waiting: &QueuedEntry| waiting.arrival <= arrival;
            let at = self.entries.partition_point(behind);
            let waiting = QueuedEntry {
                entry: entry.clone(),
                arrival,
                alive_until: 0,
            };
            self.entries.insert(at, waiting);
            self.expires = time + micros(QUEUE_TTL);
        }
    }

    /// A sign of life of an entry, if it is in the queue.
    pub(super) fn beat(&mut self, entry: &str, time: u64) {
        if let Some(waiting) = self.entries.iter_mut().find(|it| *it.entry == *entry) {
            waiting.alive_until = time + micros(HEARTBEAT);
            self.expires = time + micros(QUEUE_TTL);
        }
    }

    /// Whether the first entry counts as alive. A sign of life from the future is none: the clock was
    /// set back, and from now on each such entry counts as alive for no longer than any other.
    pub(super) fn first_is_alive(&mut self, time: u64) -> bool {
        let latest = time + micros(HEARTBEAT);
        let QueueHead::Entry(first) = self.first() else {
            return false;
        };
        let alive_until = first.alive_until;
        if alive_until > latest {
            for waiting in &mut self.entries {
                waiting.alive_until = waiting.alive_until.min(latest);
            }
            self.expires = time + micros(QUEUE_TTL);
        }
        alive_until > time
    }

    /// Removes an entry; whether it was there.
    pub(super) fn leave(&mut self, entry: &str) -> bool {
        let found = self.has(entry);
        self.retain(|waiting| *waiting.entry != *entry);
        found
    }

    /// Drops entries whose heartbeat has lapsed, those that lapsed first, but not too many in one
    /// call.
    pub(super) fn drop_lapsed(&mut self, time: u64) {
        let has_lapsed = |it: &&QueuedEntry| it.alive_until > 0 && !it.is_alive(time);
        let lapsed = self.entries.iter().filter(has_lapsed);
        let mut lapsed: Vec<_> = lapsed
            .map(|it| (it.alive_until, it.entry.clone()))
            .collect();
        lapsed.sort_unstable();
        lapsed.truncate(ENTRIES_AT_ONCE);
        self.retain(|waiting| !lapsed.iter().any(|(_, entry)| *entry == waiting.entry));
    }

    /// Drops all, if nobody has shown a sign of life for so long.
    pub(super) fn drop_if_lapsed(&mut self, time: u64) {
        if self.expires <= time {
            *self = Self::default();
        }
    }

    /// When it lapses; `None`: it is empty.
    #[cfg(test)]
    pub(super) fn ends(&self) -> Option<u64> {
        (!self.is_empty()).then_some(self.expires)
    }

    fn retain(&mut self, stays: impl Fn(&QueuedEntry) -> bool) {
        self.entries.retain(stays);
        if self.is_empty() {
            self.expires = 0;
        }
    }
}
