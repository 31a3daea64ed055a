//! Test hooks: they change and read a server's state outside the protocol.

use std::sync::Arc;
use std::time::Duration;

use super::Server;
use super::locks::{Held, Lock};
use super::set::Meta;
use crate::policy::commands::Keep;
use crate::values::entry;

impl Server {
    /// How many keys are stored, lapsed ones included; a queue counts once.
    pub(crate) fn len(&self) -> usize {
        self.locks.len() + self.queues.len()
    }

    /// Puts a foreign value at a key, as a program without dlock would.
    pub(crate) fn put(&mut self, key: &str, value: &str, expires: Option<u64>) {
        let value = value.into();
        let held = Held { value, expires };
        self.locks.insert(&key.into(), Lock::One(held));
    }

    /// When the value or set at a key lapses; `None`: never, or the key is empty.
    pub(crate) fn expires(&self, key: &str) -> Option<u64> {
        match self.locks.stored(key)? {
            Lock::One(held) => held.expires,
            Lock::Many(set) => set.last_end(),
        }
    }

    /// Each entry at a key and its end, lapsed or not; an endless one is not told.
    pub(crate) fn each_entry(&self, key: &str, mut tell: impl FnMut(&str, u64)) {
        match self.locks.stored(key) {
            None => {}
            Some(Lock::One(held)) => {
                if let Some(end) = held.expires {
                    tell(&held.value, end);
                }
            }
            Some(Lock::Many(set)) => {
                for (entry, end) in set.by_end() {
                    tell(&entry, end);
                }
            }
        }
    }

    /// The epoch of an owner's hold, lapsed or not.
    pub(crate) fn stored_epoch(&self, key: &str) -> Option<u64> {
        match self.locks.stored(key)? {
            Lock::One(_) => None,
            Lock::Many(set) => set.meta.epoch(),
        }
    }

    /// Gives an owner's hold another epoch, even a lower one.
    pub(crate) fn set_epoch_of_hold(&mut self, key: &str, to: u64, time: u64) {
        if let Some(set) = self.locks.set(key, time)
            && let Meta::Owner { epoch, .. } = &mut set.meta
        {
            *epoch = to;
        }
    }

    pub(crate) fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.locks.remove(key);
    }

    /// Puts a queue entry of any form behind the others, as another version would.
    pub(crate) fn enter(&mut self, key: &str, entry: &str, time: u64) {
        let arrival = self.draw_epoch(time);
        self.queues.enter(&key.into(), &entry.into(), arrival, time);
    }

    /// Puts a queue entry behind the others that the heartbeats don't have.
    pub(crate) fn enter_silently(&mut self, key: &str, entry: &str, time: u64) {
        let arrival = self.draw_epoch(time);
        self.queues
            .enter_silently(&key.into(), &entry.into(), arrival, time);
    }

    /// Makes an entry hold a lock exactly until then, whatever other holders there are.
    pub(crate) fn put_entry(&mut self, key: &str, entry: &str, until: u64, time: u64) {
        let read = entry::read(entry).expect("an entry");
        let epoch = self.draw_epoch(time);
        let lease = Duration::from_micros(until - time);
        self.add(&key.into(), &entry.into(), &read, lease, epoch, time);
        if let Some(set) = self.locks.set(key, time) {
            set.end_at(entry, until);
        }
    }

    /// Removes the entry of a holder that still counts on it.
    pub(crate) fn drop_entry(&mut self, key: &str, entry: &str, time: u64) {
        if let Some(set) = self.locks.set(key, time) {
            set.give_back(entry, Keep::NOT, time);
        }
        self.locks.tidy(key, time);
    }

    pub(crate) fn beat(&mut self, key: &str, entry: &str, time: u64) {
        self.queues.beat(key, entry, time);
    }

    pub(crate) fn leave(&mut self, key: &str, entry: &str, time: u64) -> bool {
        self.queues.leave(key, entry, time)
    }

    /// Replaces all queues by those of another server.
    pub(crate) fn take_queue_of(&mut self, other: &Self) {
        self.queues = other.queues.clone();
    }

    /// Drops a queue, as if its keys had been evicted.
    pub(crate) fn lose_queue(&mut self, key: &str) {
        self.queues.lose(key);
    }

    /// When the queue of a key lapses.
    pub(crate) fn queue_ends(&mut self, key: &str, time: u64) -> Option<u64> {
        self.queues.ends(key, time)
    }

    pub(crate) fn set_last_epoch(&mut self, epoch: u64) {
        self.last_epoch = epoch;
    }

    /// Who wants to be told that the key is free, in order, and until when that is known.
    pub(crate) fn hints(&mut self, key: &str, time: u64) -> Option<(Vec<Arc<str>>, u64)> {
        self.hints.list(key, time)
    }

    /// The writers that readers keep out of the lock, by the end of their time.
    pub(crate) fn writers_kept_out(&mut self, key: &str, time: u64) -> Vec<Arc<str>> {
        self.hints.writers(key, time)
    }

    /// The queue of a key, in order, each entry with the time until which it counts as alive.
    pub(crate) fn waiting(&mut self, key: &str, time: u64) -> Vec<(Arc<str>, u64)> {
        self.queues.list(key, time)
    }

    /// The members of the set at a key without the meta, each with its end, as a real server has
    /// them.
    pub(crate) fn members(&mut self, key: &str, time: u64) -> Vec<(String, u64)> {
        let set = self.locks.set(key, time);
        set.map(|set| set.members()).unwrap_or_default()
    }

    /// As [`meta`](Self::meta), without dropping what has lapsed.
    pub(crate) fn stored_meta(&self, key: &str) -> Option<String> {
        match self.locks.stored(key)? {
            Lock::One(_) => None,
            Lock::Many(set) => Some(set.to_string()),
        }
    }

    /// The meta of the set at a key: what all its holders have in common.
    pub(crate) fn meta(&mut self, key: &str, time: u64) -> Option<String> {
        self.locks.set(key, time).map(|set| set.to_string())
    }
}
