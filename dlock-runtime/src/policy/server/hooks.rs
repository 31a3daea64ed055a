//! What tests do behind the protocol's back, and see there.

use std::sync::Arc;
use std::time::Duration;

use super::Server;
use super::locks::{Held, Lock};
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

    /// When what stands at a key lapses; `None`: never, or nothing stands there.
    pub(crate) fn expires(&self, key: &str) -> Option<u64> {
        match self.locks.stored(key)? {
            Lock::One(held) => held.expires,
            Lock::Many(set) => set.last_end(),
        }
    }

    pub(crate) fn remove(&mut self, key: &str) {
        self.locks.remove(key);
    }

    /// Puts a place of any form behind the others, as another version would.
    pub(crate) fn enter(&mut self, key: &str, entry: &str, time: u64) {
        let arrival = self.draw_epoch(time);
        self.queues.enter(&key.into(), &entry.into(), arrival, time);
    }

    /// Lets an entry hold a lock until then and no longer, whoever else does.
    pub(crate) fn put_entry(&mut self, key: &str, entry: &str, until: u64, time: u64) {
        let read = entry::read(entry).expect("an entry");
        let epoch = self.draw_epoch(time);
        let lease = Duration::from_micros(until - time);
        self.add(&key.into(), &entry.into(), &read, lease, epoch, time);
        if let Some(set) = self.locks.set(key, time) {
            set.end_at(entry, until);
        }
    }

    /// Takes an entry away from under its holder.
    pub(crate) fn drop_entry(&mut self, key: &str, entry: &str, time: u64) {
        if let Some(set) = self.locks.set(key, time) {
            set.give_back(entry, None);
        }
        self.locks.tidy(key, time);
    }

    pub(crate) fn beat(&mut self, key: &str, entry: &str, time: u64) {
        self.queues.beat(key, entry, time);
    }

    pub(crate) fn leave(&mut self, key: &str, entry: &str, time: u64) -> bool {
        self.queues.leave(key, entry, time)
    }

    /// Whoever waits there waits here, and nobody else does.
    pub(crate) fn take_queue_of(&mut self, other: &Self) {
        self.queues = other.queues.clone();
    }

    /// As if the keys of a queue had been evicted.
    pub(crate) fn lose_queue(&mut self, key: &str) {
        self.queues.lose(key);
    }

    /// When the queue of a key lapses.
    pub(crate) fn queue_ends(&mut self, key: &str, time: u64) -> Option<u64> {
        self.queues.ends(key, time)
    }

    /// Who waits for a key, in order, each with the time until which it counts as alive.
    pub(crate) fn waiting(&mut self, key: &str, time: u64) -> Vec<(Arc<str>, u64)> {
        self.queues.list(key, time)
    }

    /// The members of the set at a key, each with its end, as a real server has them; without the meta.
    pub(crate) fn members(&mut self, key: &str, time: u64) -> Vec<(String, u64)> {
        let set = self.locks.set(key, time);
        set.map(|set| set.members()).unwrap_or_default()
    }

    /// The same, and nothing is tidied.
    pub(crate) fn stored_meta(&self, key: &str) -> Option<String> {
        match self.locks.stored(key)? {
            Lock::One(_) => None,
            Lock::Many(set) => Some(set.meta.to_string()),
        }
    }

    /// What the set at a key says that all its holders have in common.
    pub(crate) fn meta(&mut self, key: &str, time: u64) -> Option<String> {
        self.locks.set(key, time).map(|set| set.meta.to_string())
    }
}
