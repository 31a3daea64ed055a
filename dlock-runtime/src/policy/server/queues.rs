//! The queue of each key: on a real server, the sorted sets `queue` (in order of arrival) and
//! `heartbeats`, which lapse together.
//!
//! It does not decide who is granted (`grant`). Invariant: an entry stands at most once in the
//! queue of a key, at the position where it first came.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::micros;
use crate::policy::queue::{ENTRIES_AT_ONCE, HEARTBEAT, QUEUE_TTL};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct ServerQueues(BTreeMap<Arc<str>, Queue>);

/// Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Queue {
    /// In order of arrival.
    entries: Vec<QueuedEntry>,
    expires: u64,
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

    pub(super) fn alive_until(&self) -> u64 {
        self.alive_until
    }

    pub(super) fn is_alive(&self, time: u64) -> bool {
        self.alive_until > time
    }
}

impl ServerQueues {
    pub(super) fn is_empty(&mut self, key: &str, time: u64) -> bool {
        self.live(key, time).is_none()
    }

    pub(super) fn has(&mut self, key: &str, entry: &str, time: u64) -> bool {
        self.live(key, time)
            .is_some_and(|queue| queue.entries.iter().any(|waiting| *waiting.entry == *entry))
    }

    pub(super) fn first(&mut self, key: &str, time: u64) -> Option<QueuedEntry> {
        self.live(key, time)?.entries.first().cloned()
    }

    /// All entries, in order.
    pub(super) fn all(&mut self, key: &str, time: u64) -> Vec<QueuedEntry> {
        let queue = self.live(key, time);
        queue.map(|queue| queue.entries.clone()).unwrap_or_default()
    }

    /// Adds an entry behind all others, or leaves it where it is; either way it is alive now.
    pub(super) fn enter(&mut self, key: &Arc<str>, entry: &Arc<str>, arrival: u64, time: u64) {
        self.enter_silently(key, entry, arrival, time);
        self.beat(key, entry, time);
    }

    /// The same without a sign of life.
    pub(super) fn enter_silently(
        &mut self,
        key: &Arc<str>,
        entry: &Arc<str>,
        arrival: u64,
        time: u64,
    ) {
        if !self.has(key, entry, time) {
            let queue = self.0.entry(key.clone()).or_insert(Queue {
                entries: Vec::new(),
                expires: 0,
            });
            let at = queue
                .entries
                .partition_point(|waiting| waiting.arrival <= arrival);
            let waiting = QueuedEntry {
                entry: entry.clone(),
                arrival,
                alive_until: 0,
            };
            queue.entries.insert(at, waiting);
            queue.expires = time + micros(QUEUE_TTL);
        }
    }

    /// A sign of life of an entry, if it is in the queue.
    pub(super) fn beat(&mut self, key: &str, entry: &str, time: u64) {
        let Some(queue) = self.live(key, time) else {
            return;
        };
        let Some(waiting) = queue.entries.iter_mut().find(|it| *it.entry == *entry) else {
            return;
        };
        waiting.alive_until = time + micros(HEARTBEAT);
        queue.expires = time + micros(QUEUE_TTL);
    }

    /// Whether the head counts as alive. A sign of life from the future is none: the clock was set
    /// back, and from now on each such entry counts as alive for no longer than any other.
    pub(super) fn is_alive(&mut self, key: &str, head: &QueuedEntry, time: u64) -> bool {
        let latest = time + micros(HEARTBEAT);
        if head.alive_until > latest
            && let Some(queue) = self.live(key, time)
        {
            for waiting in &mut queue.entries {
                waiting.alive_until = waiting.alive_until.min(latest);
            }
            queue.expires = time + micros(QUEUE_TTL);
        }
        head.is_alive(time)
    }

    /// Removes an entry; whether it was there.
    pub(super) fn leave(&mut self, key: &str, entry: &str, time: u64) -> bool {
        let found = self.has(key, entry, time);
        self.retain(key, time, |waiting| *waiting.entry != *entry);
        found
    }

    /// Drops entries whose heartbeat has lapsed, those that lapsed first, but not too many in one
    /// call.
    pub(super) fn drop_lapsed(&mut self, key: &str, time: u64) {
        let Some(queue) = self.live(key, time) else {
            return;
        };
        let mut lapsed: Vec<_> = queue
            .entries
            .iter()
            .filter(|waiting| waiting.alive_until > 0 && !waiting.is_alive(time))
            .map(|waiting| (waiting.alive_until, waiting.entry.clone()))
            .collect();
        lapsed.sort_unstable();
        lapsed.truncate(ENTRIES_AT_ONCE);
        self.retain(key, time, |waiting| {
            !lapsed.iter().any(|(_, entry)| *entry == waiting.entry)
        });
    }

    /// How many queues are stored, lapsed ones included.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn sweep(&mut self, time: u64) {
        self.0.retain(|_, queue| queue.expires > time);
    }

    #[cfg(test)]
    pub(super) fn list(&mut self, key: &str, time: u64) -> Vec<(Arc<str>, u64)> {
        let entries = self.live(key, time).map(|queue| queue.entries.iter());
        entries
            .into_iter()
            .flatten()
            .map(|waiting| (waiting.entry.clone(), waiting.alive_until))
            .collect()
    }

    #[cfg(test)]
    pub(super) fn lose(&mut self, key: &str) {
        self.0.remove(key);
    }

    #[cfg(test)]
    pub(super) fn ends(&mut self, key: &str, time: u64) -> Option<u64> {
        self.live(key, time).map(|queue| queue.expires)
    }

    fn retain(&mut self, key: &str, time: u64, stays: impl Fn(&QueuedEntry) -> bool) {
        let Some(queue) = self.live(key, time) else {
            return;
        };
        queue.entries.retain(stays);
        if queue.entries.is_empty() {
            self.0.remove(key);
        }
    }

    fn live(&mut self, key: &str, time: u64) -> Option<&mut Queue> {
        if self.0.get(key).is_some_and(|queue| queue.expires <= time) {
            self.0.remove(key);
        }
        self.0.get_mut(key)
    }
}
